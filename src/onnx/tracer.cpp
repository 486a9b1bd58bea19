#include "onnx/tracer.hpp"

#include <fmt/format.h>

#include "lathe/detail/access.hpp"
#include "onnx/call.hpp"
#include "onnx/integers.hpp"
#include "onnx/ops/values.hpp"
#include "onnx/strings/carry.hpp"
#include "onnx/strings/traced.hpp"

namespace lathe::onnx {
namespace {

/// Functions may call each other and bodies may be nested, up to here.
constexpr size_t kMaxDepth = 200;
/// Loops of known length are unrolled: a trace may take so many nodes.
constexpr size_t kMaxNodes = 2'000'000;
/// Of one value that decides what is computed, such as a shape or a mask: it is held on the host.
constexpr int64_t kMaxLookedAt = int64_t{1} << 24;

class Deeper {
public:
  explicit Deeper(size_t& depth, const std::string& what) : depth_(depth) {
    if (depth_ >= kMaxDepth)
      throw Error(
          ErrorKind::Limit,
          fmt::format("{}: nested {} deep, expected less (does a function call itself?)", what, kMaxDepth));
    ++depth_;
  }
  ~Deeper() { --depth_; }

private:
  size_t& depth_;
};

std::string place(const NodeDef& node, int opset) {
  return fmt::format("{} (node '{}', domain '{}', opset {})", node.op, node.name,
                     node.domain.empty() ? "ai.onnx" : node.domain, opset);
}

/// The values that the nodes behind the present ones may use, in an order that does not depend on how names
/// hash: a saved program goes by it.
std::vector<Value*> live_values(Frame& frame) {
  std::vector<Value*> live;
  for (Frame* f = &frame; f; f = f->caller) {
    if (f->looks == Looks::Refused)
      throw Error(ErrorKind::Value, "depends on values that the model is fed, expected none that decide what "
                                    "is computed inside of what a Gradient differentiates");
    std::map<std::string_view, Value*> by_name;
    for (auto& [name, value] : f->values)
      if (auto last = f->graph.last_use.find(name);
          last != f->graph.last_use.end() && last->second >= f->position)
        by_name.emplace(name, &value);
    for (const auto& [name, value] : by_name) live.push_back(value);
  }
  return live;
}

int opset_of(const Frame& frame, const std::string& domain) {
  auto found = frame.opsets.find(domain);
  return found == frame.opsets.end() ? 1 : found->second;
}

} // namespace

const Value* Frame::find(const std::string& name) const {
  for (const Frame* frame = this; frame; frame = frame->outer)
    if (auto found = frame->values.find(name); found != frame->values.end()) return &found->second;
  return nullptr;
}

Value map_tensors(const Value& value, const std::function<Tensor(const Tensor&)>& change) {
  if (value.is_sequence()) {
    std::vector<Value> elements;
    for (const Value& element : value.elements()) elements.push_back(map_tensors(element, change));
    return Value::sequence(value.dtype(), std::move(elements));
  }
  if (value.is_strings()) return value.ids() ? Value::strings(change(*value.ids())) : value;
  if (value.is_map())
    return Value::map(map_tensors(value.keys(), change), map_tensors(value.values(), change));
  if (value.is_map_rows())
    return Value::map_rows(map_tensors(value.keys(), change), change(value.values().tensor()));
  if (!value.is_tensor()) return value;
  Value changed(change(value.tensor()));
  return value.integers() ? changed.with_integers(*value.integers()) : changed;
}

std::vector<Scalar> host_elements(const Tensor& tensor) {
  if (const DType dtype = tensor.dtype(); is_narrow(dtype))
    return host_elements(tensor.cast(is_float(dtype)    ? DType::F32
                                     : is_signed(dtype) ? DType::I8
                                                        : DType::U8));
  const auto width = static_cast<size_t>(size_of(tensor.dtype()));
  const auto count = static_cast<size_t>(tensor.element_count());
  std::vector<unsigned char> bytes(count * width);
  tensor.read(bytes.data(), tensor.dtype());
  std::vector<Scalar> out;
  out.reserve(count);
  for (size_t k = 0; k < count; ++k)
    out.push_back(Scalar::from_memory(tensor.dtype(), bytes.data() + k * width));
  return out;
}

Tracer::Observer Tracer::names_values(NamedTensors& names) {
  return [&names](const Frame&, const NodeDef& node, const std::vector<Value>&,
                  const std::vector<Value>& outputs) {
    for (size_t k = 0; k < outputs.size(); ++k)
      if (outputs[k].is_tensor())
        names.emplace(fmt::format("{} ({}){}", node.name.empty() ? node.outputs[k] : node.name, node.op,
                                  k ? fmt::format(" output {}", k) : ""),
                      outputs[k].tensor());
  };
}

Tracer::Tracer(const Model::Impl& model, Looker& looker, Observer observer)
    : model_(model), looker_(looker), observer_(std::move(observer)) {}

std::vector<Value> Tracer::run(const std::vector<Value>& inputs) {
  Frame frame{.graph = model_.graph, .opsets = model_.opsets};
  for (size_t k = 0; k < inputs.size(); ++k) frame.values[model_.inputs[k].name] = inputs[k];
  return run_frame(frame);
}

std::vector<Value> Tracer::run_body(Frame& surroundings, const GraphDef& body,
                                    const std::vector<Value>& arguments, Looks looks) {
  const Deeper deeper(depth_, body.name);
  if (arguments.size() > body.inputs.size())
    throw Error(ErrorKind::Value, fmt::format("body '{}' takes {} inputs, {} given", body.name,
                                              body.inputs.size(), arguments.size()));
  Frame frame{.graph = body,
              .opsets = surroundings.opsets,
              .attributes = surroundings.attributes,
              .outer = &surroundings,
              .caller = &surroundings,
              .looks = looks};
  for (size_t k = 0; k < arguments.size(); ++k) frame.values[body.inputs[k].name] = arguments[k];
  return run_frame(frame);
}

std::vector<Value> Tracer::run_frame(Frame& frame) {
  for (const auto& [name, value] : frame.graph.initialisers) frame.values.emplace(name, value);
  for (; frame.position < frame.graph.nodes.size(); ++frame.position) {
    const NodeDef& node = frame.graph.nodes[frame.position];
    const std::vector<Value> outputs = run_node(frame, node);
    for (size_t k = 0; k < node.outputs.size(); ++k)
      if (!node.outputs[k].empty()) frame.values[node.outputs[k]] = k < outputs.size() ? outputs[k] : Value();
  }
  std::vector<Value> results;
  for (const Port& port : frame.graph.outputs) {
    const Value* value = frame.find(port.name);
    results.push_back(value ? *value : Value());
  }
  return results;
}

std::vector<Value> Tracer::run_node(Frame& frame, const NodeDef& node) {
  if (++nodes_ > kMaxNodes)
    throw Error(ErrorKind::Limit,
                fmt::format("{}: more than {} nodes once its loops are unrolled", model_.path, kMaxNodes));
  std::vector<Value> inputs;
  for (const std::string& name : node.inputs) {
    const Value* value = name.empty() ? nullptr : frame.find(name);
    inputs.push_back(value ? *value : Value());
  }
  std::vector<Value> outputs;
  auto function = model_.functions.find({node.domain, node.op});
  if (function != model_.functions.end()) {
    outputs = run_function(frame, node, function->second);
  } else {
    const FoundOp op = find_node_op(frame, node);
    const std::optional<Integers> known = fold_integers(node, inputs);
    if (auto constant = known ? constant_of(*known) : std::nullopt) {
      outputs = {*constant};
    } else {
      outputs = import(frame, node, *op.import);
      if (known) outputs.at(0) = outputs.at(0).with_integers(known->elements);
    }
  }
  if (observer_) observer_(frame, node, inputs, outputs);
  return outputs;
}

FoundOp Tracer::find_node_op(const Frame& frame, const NodeDef& node) const {
  const int opset = opset_of(frame, node.domain);
  FoundOp op = find_op(node.domain, node.op, opset);
  if (!op.import)
    throw Error(ErrorKind::Name, fmt::format("{}: {}; `lathe inspect` lists all that are missing",
                                             place(node, opset), op.refusal));
  size_t inputs = node.inputs.size();
  while (inputs > 0 && node.inputs[inputs - 1].empty()) --inputs;
  if (inputs > static_cast<size_t>(op.most_inputs))
    throw Error(ErrorKind::Value, fmt::format("{}: {} inputs, expected at most {} at this opset",
                                              place(node, opset), inputs, op.most_inputs));
  return op;
}

std::vector<Value> Tracer::import(Frame& frame, const NodeDef& node, const OpImporter& importer) {
  const int opset = opset_of(frame, node.domain);
  Call::Impl impl{*this, frame, node, opset};
  Call call(impl);
  try {
    const CarriedStrings* carried = carried_strings(node.domain, node.op);
    impl.strings_as_ids = carried && carries_strings(call, *carried);
    std::vector<Value> outputs = importer(call);
    impl.check_all_asked(call);
    if (impl.strings_as_ids && carried->results)
      for (Value& output : outputs) output = as_strings(output);
    return outputs;
  } catch (const Error& error) {
    // An error of a body's node says where it is already.
    if (error.what() == reported_) throw;
    reported_ = place(node, opset) + ": " + error.what();
    throw Error(error.kind(), reported_);
  }
}

std::vector<Value> Tracer::run_function(Frame& caller, const NodeDef& node, const FunctionDef& function) {
  const Deeper deeper(depth_, function.name);
  std::map<std::string, Attribute, std::less<>> attributes = function.defaults;
  const Call::Impl given{*this, caller, node, 0};
  for (const auto& [name, value] : node.attributes)
    if (const Attribute* resolved = given.attribute(name)) attributes.insert_or_assign(name, *resolved);
  Frame frame{
      .graph = function.body, .opsets = function.opsets, .attributes = &attributes, .caller = &caller};
  for (size_t k = 0; k < function.body.inputs.size(); ++k) {
    const Value* value =
        k < node.inputs.size() && !node.inputs[k].empty() ? caller.find(node.inputs[k]) : nullptr;
    frame.values[function.body.inputs[k].name] = value ? *value : Value();
  }
  return run_frame(frame);
}

namespace {

void check_looked_at(const Tensor& tensor) {
  if (const int64_t count = is_static(tensor.shape()) ? tensor.element_count() : 0; count > kMaxLookedAt)
    throw Error(ErrorKind::Limit,
                fmt::format("{} values decide what is computed, expected at most {}", count, kMaxLookedAt));
}

/// What was seen of this very tensor; null if nothing was.
template <class Seen>
const Seen* seen_of(const std::vector<std::pair<Tensor, Seen>>& all, const Tensor& tensor) {
  for (const auto& [looked_at, seen] : all)
    if (&*detail::impl(looked_at) == &*detail::impl(tensor)) return &seen;
  return nullptr;
}

/// The values that a trace goes on with.
std::vector<Value*> live_with(Frame& frame, std::vector<Value>* kept) {
  std::vector<Value*> live = live_values(frame);
  if (kept)
    for (Value& value : *kept) live.push_back(&value);
  return live;
}

} // namespace

std::vector<Scalar> Tracer::elements(Frame& frame, const Tensor& tensor, std::vector<Value>* kept) {
  check_looked_at(tensor);
  if (is_constant(tensor)) return host_elements(tensor);
  if (const auto* seen = seen_of(seen_, tensor)) return *seen;
  seen_.emplace_back(tensor, looker_.look(tensor, live_with(frame, kept)));
  return seen_.back().second;
}

Shape Tracer::sizes(Frame& frame, const Tensor& tensor, std::vector<Value>* kept) {
  check_looked_at(tensor);
  if (const Shape* seen = seen_of(seen_sizes_, tensor)) return *seen;
  if (is_constant(tensor) || seen_of(seen_, tensor)) {
    Shape sizes;
    for (const Scalar& element : elements(frame, tensor, kept)) sizes.emplace_back(element.as_int());
    return sizes;
  }
  seen_sizes_.emplace_back(tensor, looker_.look_at_sizes(tensor, live_with(frame, kept)));
  return seen_sizes_.back().second;
}

std::vector<Value> Tracer::on_host(Frame& frame, const HostOp& op, const std::vector<Value>& inputs) {
  bool known = true;
  std::vector<Value> texts;
  for (const Value& input : inputs) {
    const Tensor* tensor = input.is_tensor()                   ? &input.tensor()
                           : input.is_strings() && input.ids() ? &*input.ids()
                                                               : nullptr;
    known &= !tensor || is_constant(*tensor);
    texts.push_back(known && input.is_strings() && input.ids() ? CallStrings(strings()).strings(*tensor)
                                                               : input);
  }
  return known ? run_host_op(op, texts) : looker_.on_host(op, inputs, live_values(frame));
}

std::optional<std::vector<Value>> Tracer::loop(Frame& frame, const LoopCall& call, bool is_counted) {
  if ((is_counted && looker_.unrolls_loops()) || !can_be_model(call)) return {};
  return looker_.loop(call, live_values(frame));
}

} // namespace lathe::onnx
