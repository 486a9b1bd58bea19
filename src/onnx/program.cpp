// Programs: made while a model is traced, run along their tree.
#include "onnx/program.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "lathe/detail/access.hpp"
#include "lathe/detail/instruction_timer.hpp"
#include "onnx/integers.hpp"
#include "onnx/rules.hpp"
#include "onnx/strings/traced.hpp"

namespace lathe::onnx {
namespace {

/// What a call has computed so far: values by the names that stand for them in tensors, and the strings that
/// the ids among them mean.
struct Store {
  NamedTensors values;
  CallStrings strings;
};

/// Thrown where a segment has been made that knows more strings than the call began with.
struct BeginAgain {};

bool before(const std::vector<Scalar>& a, const std::vector<Scalar>& b) {
  return std::lexicographical_compare(a.begin(), a.end(), b.begin(), b.end(),
                                      [](const Scalar& x, const Scalar& y) { return x.bits() < y.bits(); });
}

/// The name of a tensor that is a named input as it stands; "" for any other.
std::string stands_for(const Tensor& tensor, const std::map<const void*, std::string>& named) {
  auto found = named.find(detail::impl(tensor).get());
  return found == named.end() ? "" : found->second;
}

/// Such integers at the sizes of what is fed.
Value at_sizes(const Value& value, const std::vector<Port>& ports, const std::vector<Value>& fed) {
  Integers known{value.dtype(), static_sizes(value.shape()), *value.integers()};
  for (Expr& element : known.elements)
    element = evaluate(element, [&](Expr variable) -> int64_t {
      for (size_t k = 0; k < ports.size(); ++k)
        for (size_t axis = 0; ports[k].shape && axis < ports[k].shape->size(); ++axis)
          if ((*ports[k].shape)[axis] == variable) return fed[k].shape()[axis].value();
      throw InternalError("no input has the size " + variable.name());
    });
  return *constant_of(known);
}

void run(const Segment& segment, Store& store) {
  if (!segment.code) return;
  NamedTensors inputs;
  for (const KernelParam& param : segment.code->inputs())
    inputs.emplace(param.name, store.values.at(param.name));
  for (auto& [name, value] : (*segment.code)(inputs)) store.values.insert_or_assign(name, value);
}

/// A value of which named inputs stand for tensors, with what they are and its strings' texts.
Value at_hand(const Value& value, const Store& store) {
  const auto computed = [&](const Tensor& tensor) {
    const std::vector<std::string> named = tensor.inputs();
    return named.empty() ? tensor : store.values.at(named[0]);
  };
  switch (value.kind()) {
  case Value::Kind::None: return value;
  case Value::Kind::Tensor: return map_tensors(value, computed);
  case Value::Kind::Strings: return value.ids() ? store.strings.strings(computed(*value.ids())) : value;
  case Value::Kind::Map: return Value::map(at_hand(value.keys(), store), at_hand(value.values(), store));
  case Value::Kind::MapRows:
    return maps_of_rows(Value::map_rows(at_hand(value.keys(), store), computed(value.values().tensor())));
  case Value::Kind::Sequence: break;
  }
  std::vector<Value> elements;
  for (const Value& element : value.elements()) elements.push_back(at_hand(element, store));
  return Value::sequence(value.dtype(), std::move(elements));
}

/// The sizes of the outputs, which follow in the store.
std::vector<Scalar> run(const HostStep& step, Store& store, std::vector<Value>* made = nullptr) {
  const detail::InstructionTimer timer("host", step.op.name);
  std::vector<Value> inputs;
  for (const Value& input : step.inputs) inputs.push_back(at_hand(input, store));
  const std::vector<Value> outputs = run_host_op(step.op, inputs);
  std::vector<Scalar> sizes;
  for (size_t k = 0; k < outputs.size(); ++k) {
    for (const int64_t size : static_sizes(outputs[k].shape()))
      sizes.push_back(Scalar::of_int(DType::I64, size));
    store.values.insert_or_assign(step.outputs.at(k), outputs[k].is_strings() ? store.strings.ids(outputs[k])
                                                                              : outputs[k].tensor());
  }
  if (made) *made = outputs;
  return sizes;
}

std::vector<Scalar> look_at(const Store& store, const std::string& name) {
  const detail::InstructionTimer timer("look", name);
  return host_elements(store.values.at(name));
}

/// Traces a model along one way through it, making the segments that are not there yet. With `store`, values
/// are looked at by running what has been traced; without, a look throws NeedsInputs.
class Maker final : public Looker {
public:
  Maker(const Program::Impl& program, Segment& root, Store* store)
      : program_(program), segment_(&root), store_(store) {}

  /// The last segment of the way, run if there is a store.
  Segment& make(const std::vector<Value>& inputs) {
    for (const Value& input : inputs)
      map_tensors(input, [&](const Tensor& tensor) { return name(tensor, tensor.inputs().at(0)); });
    Tracer tracer(*program_.model, *this, observer());
    const std::vector<Value> results = tracer.run(inputs);
    if (segment_->made) {
      check_made("", nullptr);
    } else {
      for (size_t k = 0; k < results.size(); ++k)
        segment_->results.emplace_back(
            program_.model->graph.outputs[k].name,
            has_symbols(results[k]) ? results[k]
                                    : map_tensors(results[k], [&](const Tensor& t) { return output(t); }));
      finish_segment();
    }
    if (store_) run_segment();
    return *segment_;
  }

  std::vector<Scalar> look(const Tensor& tensor, const std::vector<Value*>& live) override {
    if (!store_) throw NeedsInputs();
    const std::string fed = stands_for(tensor, named_);
    if (fed.empty()) {
      seen_ = output(tensor).inputs().at(0);
      for (Value* value : live) *value = map_tensors(*value, [&](const Tensor& t) { return output(t); });
    } else {
      seen_ = fed;
    }
    if (segment_->made) {
      check_made(seen_, nullptr);
    } else {
      segment_->looked_at = seen_;
      finish_segment();
    }
    run_segment();
    std::vector<Scalar> elements = look_at(*store_, seen_);
    go_on(elements);
    return elements;
  }

  std::vector<Value> on_host(const HostOp& op, const std::vector<Value>& inputs,
                             const std::vector<Value*>& live) override {
    if (!store_) throw NeedsInputs();
    HostStep step{op, {}, {}};
    const auto kept = [&](const Value& value) {
      return map_tensors(value, [&](const Tensor& t) { return output(t); });
    };
    for (const Value& input : inputs) step.inputs.push_back(kept(input));
    for (Value* value : live) *value = kept(*value);
    for (int k = 0; k < HostStep::kOutputs; ++k) step.outputs.push_back(fmt::format("h{}_{}", depth_, k));
    if (segment_->made) {
      check_made("", &step);
    } else {
      segment_->host = step;
      finish_segment();
    }
    run_segment();
    std::vector<Value> made;
    go_on(run(step, *store_, &made));
    std::vector<Value> results;
    for (size_t k = 0; k < made.size(); ++k) {
      const Tensor& computed = store_->values.at(step.outputs[k]);
      const Tensor stand_in =
          name(Tensor::input(step.outputs[k], computed.shape(), computed.dtype()), step.outputs[k]);
      results.push_back(made[k].is_strings() ? Value::strings(stand_in) : Value(stand_in));
    }
    return results;
  }

  StringTable& strings() override { return program_.strings; }

private:
  Tensor name(const Tensor& tensor, const std::string& name) {
    named_[detail::impl(tensor).get()] = name;
    kept_.push_back(tensor);
    return tensor;
  }

  /// A named input that stands for the tensor from the next segment on; what needs no computing stays.
  Tensor output(const Tensor& tensor) {
    if (!stands_for(tensor, named_).empty()) return tensor;
    if (tensor.inputs().empty()) return tensor.realise();
    if (auto found = by_impl_.find(detail::impl(tensor).get()); found != by_impl_.end()) return found->second;
    const std::string called = fmt::format("v{}_{}", depth_, outputs_.size());
    outputs_.emplace(called, tensor);
    kept_.push_back(tensor);
    const Tensor stand_in = Tensor::input(called, tensor.shape(), tensor.dtype());
    by_impl_.emplace(detail::impl(tensor).get(), stand_in);
    return name(stand_in, called);
  }

  /// Runs the present segment, which may name strings that the call knows by other ids.
  void run_segment() {
    outputs_.clear();
    by_impl_.clear();
    if (program_.strings.size() > store_->strings.known()) throw BeginAgain();
    run(*segment_, *store_);
  }

  /// To the segment for what was seen.
  void go_on(const std::vector<Scalar>& seen) {
    auto& next = segment_->next[seen];
    if (!next) next = std::make_unique<Segment>();
    segment_ = next.get();
    ++depth_;
  }

  /// A segment that is there already computes what this trace takes from it: names stand for the same values.
  void check_made(const std::string& looked_at, const HostStep* host) const {
    bool same = segment_->looked_at == looked_at && segment_->host.has_value() == (host != nullptr);
    if (same && host) same = segment_->host->op == host->op;
    if (!looked_at.empty() || host) {
      const std::vector<KernelParam> made =
          segment_->code ? segment_->code->outputs() : std::vector<KernelParam>();
      same &=
          std::equal(made.begin(), made.end(), outputs_.begin(), outputs_.end(),
                     [](const KernelParam& a, const auto& b) {
                       return a.name == b.first && a.dtype == b.second.dtype() && a.shape == b.second.shape();
                     });
    }
    if (!same)
      throw Error(ErrorKind::Value,
                  program_.model->path +
                      ": its nodes are traced otherwise than when its program was made, expected "
                      "the same version of lathe, and ops that are not registered anew");
  }

  /// Notes the model's names of values, if a trace is to show them.
  Tracer::Observer observer() {
    if (program_.options.compile.trace.empty()) return {};
    return [this](const Frame&, const NodeDef& node, const std::vector<Value>&,
                  const std::vector<Value>& outputs) {
      for (size_t k = 0; k < outputs.size(); ++k)
        if (outputs[k].is_tensor())
          origins_.emplace(fmt::format("{} ({}){}", node.name.empty() ? node.outputs[k] : node.name, node.op,
                                       k ? fmt::format(" output {}", k) : ""),
                           outputs[k].tensor());
    };
  }

  CompileOptions compile_options() {
    CompileOptions options = program_.options.compile;
    options.origins = std::move(origins_);
    origins_.clear();
    return options;
  }

  void finish_segment() {
    if (!outputs_.empty()) segment_->code = compile(outputs_, compile_options());
    segment_->strings = program_.strings.size();
    segment_->made = true;
  }

  const Program::Impl& program_;
  Segment* segment_;
  Store* store_;
  int depth_ = 0;
  std::string seen_;
  NamedTensors outputs_;                     // of the segment being traced
  NamedTensors origins_;                     // values that its nodes made, by the nodes' names
  std::map<const void*, Tensor> by_impl_;    // what stands for them
  std::map<const void*, std::string> named_; // tensors that are named inputs
  std::vector<Tensor> kept_;                 // so that no address in the maps is used again
};

void check_supported(const Model& model) {
  const std::vector<Problem> missing = model.problems();
  if (!missing.empty())
    throw Error(ErrorKind::Name,
                fmt::format("{}: {}{}", detail::impl(model)->path, missing[0].message,
                            missing.size() > 1 ? fmt::format(" (and {} more)", missing.size() - 1) : ""));
}

/// Checks one value that is fed against its port, and binds its tensors' names.
void bind_input(const Port& port, const std::string& called, const Value& value, Store& store) {
  auto expected = [&](const std::string& got) {
    throw Error(ErrorKind::Shape, fmt::format("input '{}' is {}, expected {}", port.name, got, port.text));
  };
  if (value.is_none()) {
    if (!port.optional) expected("left out");
    return;
  }
  if (value.kind() != port.kind) expected(type_text(value));
  if (value.is_sequence()) {
    const Port element{.name = port.name,
                       .kind = port.element,
                       .dtype = port.dtype,
                       .text = port.text,
                       .string_keys = port.string_keys,
                       .string_values = port.string_values};
    for (size_t k = 0; k < value.elements().size(); ++k)
      bind_input(element, fmt::format("{}_{}", called, k), value.elements()[k], store);
    return;
  }
  if (value.is_map()) {
    const auto bind_part = [&](bool strings, DType dtype, const char* what, const Value& part) {
      const Port vector{.name = port.name,
                        .kind = strings ? Value::Kind::Strings : Value::Kind::Tensor,
                        .dtype = dtype,
                        .text = port.text};
      bind_input(vector, called + what, part, store);
    };
    bind_part(port.string_keys, DType::I64, "_keys", value.keys());
    const std::vector<int64_t> keys = store.values.at(called + "_keys").to_vector<int64_t>(); // or their ids
    if (std::set<int64_t>(keys.begin(), keys.end()).size() != keys.size())
      throw Error(ErrorKind::Value,
                  fmt::format("input '{}' has a key twice, expected different ones", port.name));
    bind_part(port.string_values, port.dtype, "_values", value.values());
    return;
  }
  if (value.is_tensor() && value.dtype() != port.dtype)
    throw Error(ErrorKind::DType,
                fmt::format("input '{}' is {}, expected {}", port.name, type_text(value), port.text));
  if (!is_static(value.shape())) expected(type_text(value));
  if (port.shape) {
    if (port.shape->size() != value.shape().size()) expected(type_text(value));
    for (size_t k = 0; k < value.shape().size(); ++k)
      if ((*port.shape)[k].is_const() && (*port.shape)[k] != value.shape()[k]) expected(type_text(value));
  }
  store.values.emplace(called, value.is_strings() ? store.strings.ids(value) : value.tensor());
}

/// The fed values in the order of the model's inputs, checked.
std::vector<Value> in_order(const Model::Impl& model, const NamedValues& inputs, Store& store) {
  std::vector<Value> ordered;
  size_t found = 0;
  for (const Port& port : model.inputs) {
    auto given = inputs.find(port.name);
    if (given == inputs.end() && !port.optional)
      throw Error(ErrorKind::Name, fmt::format("input '{}' is missing, expected {}", port.name, port.text));
    found += given != inputs.end();
    ordered.push_back(given == inputs.end() ? Value() : given->second);
    bind_input(port, fmt::format("x{}", ordered.size() - 1), ordered.back(), store);
  }
  for (const auto& given : inputs)
    if (found < inputs.size() &&
        std::none_of(
            model.inputs.begin(), model.inputs.end(), [&](const Port& p) { return p.name == given.first; }))
      throw Error(ErrorKind::Name, fmt::format("input '{}' is not one of the model's", given.first));
  return ordered;
}

Value input_like(const std::string& called, const Value& fed) {
  if (fed.is_sequence()) {
    std::vector<Value> elements;
    for (size_t k = 0; k < fed.elements().size(); ++k)
      elements.push_back(input_like(fmt::format("{}_{}", called, k), fed.elements()[k]));
    return Value::sequence(fed.dtype(), std::move(elements));
  }
  if (fed.is_map())
    return Value::map(input_like(called + "_keys", fed.keys()), input_like(called + "_values", fed.values()));
  if (fed.is_strings()) return Value::strings(Tensor::input(called, fed.shape(), DType::I64));
  if (!fed.is_tensor()) return fed;
  return Tensor::input(called, fed.shape(), fed.dtype());
}

/// Whether each size that the model names is one number, and one that the program was made for, which 0 is
/// not. A model may give sizes one name that are not always equal, and other runtimes take it.
bool names_hold(const std::vector<Port>& ports, const std::vector<Value>& fed) {
  std::map<std::string, int64_t> sizes;
  for (size_t k = 0; k < ports.size(); ++k)
    for (size_t axis = 0; ports[k].shape && axis < ports[k].shape->size(); ++axis) {
      const Expr named = (*ports[k].shape)[axis];
      if (!named.is_var() || !fed[k].has_shape()) continue;
      const int64_t size = fed[k].shape()[axis].value();
      if (size < named.lo() || size > named.hi() || sizes.emplace(named.name(), size).first->second != size)
        return false;
    }
  return true;
}

/// Tells shapes and kinds of inputs apart.
std::string signature(const Value& value) {
  if (value.is_none()) return "none;";
  if (value.has_shape()) return to_string(value.shape()) + ";";
  if (value.is_map()) return "{" + signature(value.keys()) + signature(value.values()) + "}";
  std::string text = "(";
  for (const Value& element : value.elements()) text += signature(element);
  return text + ")";
}

} // namespace

Segment::Segment() : next(before) {}

Segment::~Segment() {
  std::vector<std::unique_ptr<Segment>> rest;
  const auto take = [&](Segment& segment) {
    for (auto& [elements, following] : segment.next) rest.push_back(std::move(following));
    segment.next.clear();
  };
  for (take(*this); !rest.empty();) {
    const std::unique_ptr<Segment> last = std::move(rest.back());
    rest.pop_back();
    take(*last);
  }
}

bool has_symbols(const Value& value) { return value.integers() && !is_static(*value.integers()); }

std::vector<Scalar> NoInputs::look(const Tensor&, const std::vector<Value*>&) { throw NeedsInputs(); }

std::vector<Value> NoInputs::on_host(const HostOp&, const std::vector<Value>&, const std::vector<Value*>&) {
  throw NeedsInputs();
}

std::vector<Value> declared_inputs(const Model::Impl& model, const ImportOptions& options, bool by_name) {
  std::vector<Value> inputs;
  const std::vector<std::string> names = identifiers(model.inputs);
  for (const Port& port : model.inputs) {
    const bool strings = port.kind == Value::Kind::Strings;
    if ((port.kind != Value::Kind::Tensor && !strings) || port.optional || !port.shape) throw NeedsInputs();
    Shape shape = *port.shape;
    for (Expr& size : shape)
      if (auto fixed = size.is_var() ? options.sizes.find(size.name()) : options.sizes.end();
          fixed != options.sizes.end())
        size = Expr(fixed->second);
    const std::string called = by_name ? names[inputs.size()] : fmt::format("x{}", inputs.size());
    const Tensor input = Tensor::input(called, shape, strings ? DType::I64 : port.dtype);
    inputs.push_back(strings ? Value::strings(input) : Value(input));
  }
  return inputs;
}

std::vector<Value> inputs_like(const std::vector<Value>& fed) {
  std::vector<Value> inputs;
  for (const Value& value : fed) inputs.push_back(input_like(fmt::format("x{}", inputs.size()), value));
  return inputs;
}

namespace {

/// Error(Value) for a value that no tensor of numbers stands for.
void check_numbers(const Model::Impl& model, const char* what, const std::string& name, Value::Kind kind) {
  if (kind == Value::Kind::Tensor) return;
  throw Error(ErrorKind::Value,
              fmt::format("{}: {} '{}' is {}, expected a tensor of numbers", model.path, what, name,
                          kind == Value::Kind::Strings ? "of strings" : "no tensor"));
}

} // namespace

NamedTensors Model::tensors(const ImportOptions& options) const {
  check_supported(*this);
  for (const Port& port : impl_->inputs) check_numbers(*impl_, "input", port.name, port.kind);
  Model::Impl simplified = *impl_;
  apply_rules(simplified);
  NoInputs looker;
  NamedTensors tensors;
  try {
    const std::vector<Value> results =
        Tracer(simplified, looker).run(declared_inputs(simplified, options, true));
    const std::vector<std::string> names = identifiers(simplified.graph.outputs);
    for (size_t k = 0; k < results.size(); ++k) {
      check_numbers(*impl_, "output", simplified.graph.outputs[k].name, results[k].kind());
      tensors.emplace(names[k], results[k].tensor());
    }
  } catch (const NeedsInputs&) {
    throw Error(ErrorKind::Value,
                impl_->path +
                    ": its shapes depend on what it is fed, expected a model whose shapes are known");
  }
  return tensors;
}

Program Model::compile(const ImportOptions& options) const {
  check_supported(*this);
  auto program = std::make_shared<Program::Impl>();
  auto simplified = std::make_shared<Model::Impl>(*impl_);
  apply_rules(*simplified);
  program->model = std::move(simplified);
  program->options = options;
  auto root = std::make_unique<Segment>();
  bool has_symbols = false;
  try {
    const std::vector<Value> inputs = declared_inputs(*program->model, options);
    for (const Value& input : inputs) has_symbols |= !is_static(input.shape());
    Maker(*program, *root, nullptr).make(inputs);
    program->roots[""] = std::move(root);
  } catch (const NeedsInputs&) {
    program->symbolic = false;
  } catch (const Error&) {
    // Not every op can be said for sizes that are symbols: then each set of sizes gets a program of its own,
    // when it is fed.
    if (!has_symbols) throw;
    program->symbolic = false;
  }
  return detail::Access::make<Program>(std::move(program));
}

namespace {

/// The last segment of the way that the call takes, run. BeginAgain if it knows strings that came behind
/// those which the call began with.
const Segment& run_to_end(Program::Impl& program, const std::vector<Value>& fed, Store& store) {
  // A loaded program may come without the model of which another could be made.
  const bool can_trace = !program.model->graph.nodes.empty();
  std::string key;
  if (!program.symbolic || (can_trace && !names_hold(program.model->inputs, fed)))
    for (const Value& value : fed) key += signature(value);
  const Segment* segment = nullptr;
  {
    std::lock_guard lock(program.mutex);
    auto& root = program.roots[key];
    if (!root) root = std::make_unique<Segment>();
    if (root->made) segment = root.get();
  }
  while (segment) {
    if (segment->strings > store.strings.known()) throw BeginAgain();
    run(*segment, store);
    if (segment->is_last()) return *segment;
    const std::vector<Scalar> seen =
        segment->host ? run(*segment->host, store) : look_at(store, segment->looked_at);
    const detail::InstructionTimer timer("jump", segment->looked_at);
    std::lock_guard lock(program.mutex);
    auto next = segment->next.find(seen);
    segment = next != segment->next.end() && next->second->made ? next->second.get() : nullptr;
  }
  const detail::InstructionTimer timer("trace", key);
  std::lock_guard lock(program.mutex);
  return Maker(program, *program.roots[key], &store).make(inputs_like(fed));
}

} // namespace

NamedValues Program::operator()(const NamedValues& inputs) const {
  for (;;) {
    Store store{{}, CallStrings(impl_->strings)};
    const std::vector<Value> fed = in_order(*impl_->model, inputs, store);
    try {
      const Segment& last = run_to_end(*impl_, fed, store);
      const detail::InstructionTimer timer("return", "");
      NamedValues outputs;
      for (const auto& [name, value] : last.results)
        outputs.emplace(name, has_symbols(value) ? at_sizes(value, impl_->model->inputs, fed)
                                                 : at_hand(value, store));
      return outputs;
    } catch (const BeginAgain&) { // the table has grown, and every segment adds to it but once
    }
  }
}

const std::vector<Port>& Program::inputs() const { return impl_->model->inputs; }
const std::vector<Port>& Program::outputs() const { return impl_->model->graph.outputs; }

std::vector<Executable> Program::segments() const {
  std::lock_guard lock(impl_->mutex);
  std::vector<const Segment*> all;
  for (const auto& [key, root] : impl_->roots) all.push_back(root.get());
  std::vector<Executable> out;
  for (size_t k = 0; k < all.size(); ++k) { // grows as it goes
    if (all[k]->code) out.push_back(*all[k]->code);
    for (const auto& [elements, next] : all[k]->next) all.push_back(next.get());
  }
  return out;
}

} // namespace lathe::onnx
