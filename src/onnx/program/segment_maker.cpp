#include "onnx/program/segment_maker.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "lathe/detail/access.hpp"
#include "onnx/ops/values.hpp"
#include "onnx/program/versions.hpp"

namespace lathe::onnx {
namespace {

/// The name of a tensor that is a named input as it stands; "" for any other.
std::string stands_for(const Tensor& tensor, const std::map<const void*, std::string>& named) {
  auto found = named.find(&*detail::impl(tensor));
  return found == named.end() ? "" : found->second;
}

/// The next sizes of those of several values, as many as this value has axes.
Shape shape_from(Shape::const_iterator& size, const Value& value) {
  const auto begin = size;
  size += value.rank();
  return {begin, size};
}

class Maker final : public Looker {
public:
  Maker(const Program::Impl& program, Segment& root, Store* store, Openings& openings)
      : program_(program), segment_(&root), store_(store), openings_(openings) {
    openings_.taken.clear();
    openings_.way = {&root};
  }

  /// The last segment of the way, run if there is a store.
  Segment& make(const std::vector<Value>& given) {
    const std::vector<Value> inputs = segment_->looks_at_sizes ? at_seen_sizes(given) : given;
    for (const Value& input : inputs)
      map_tensors(input, [&](const Tensor& tensor) {
        for (const Expr size : tensor.shape()) collect_vars(size, variables_);
        return name(tensor, tensor.inputs().at(0));
      });
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
    const std::vector<Scalar> seen = see(tensor, live);
    go_on(seen, false);
    return seen;
  }

  Shape look_at_sizes(const Tensor& tensor, const std::vector<Value*>& live) override {
    return go_on(see(tensor, live), true);
  }

  std::vector<Value> on_host(const HostOp& op, const std::vector<Value>& inputs,
                             const std::vector<Value*>& live) override {
    if (!store_) throw NeedsInputs();
    return on_host(HostStep{.op = op, .inputs = {}, .outputs = names_of_outputs(HostStep::kOutputs)}, inputs,
                   live);
  }

  std::vector<Value> loop(const LoopCall& call, const std::vector<Value*>& live) override {
    if (!store_) throw NeedsInputs();
    const LoopModel body = model_of_body(*program_.model, call);
    HostStep step{.op = {"Loop", {call.node}, {static_cast<int64_t>(call.states.size())}},
                  .inputs = {},
                  .outputs = names_of_outputs(call.body.outputs.size() - 1)};
    std::vector<Value> inputs{call.trips, call.condition};
    inputs.insert(inputs.end(), call.states.begin(), call.states.end());
    inputs.insert(inputs.end(), body.captured.begin(), body.captured.end());
    if (!segment_->made) step.loop_body = program_of_body(body);
    return on_host(std::move(step), inputs, live);
  }

  bool unrolls_loops() const override { return false; }
  StringTable& strings() override { return program_.strings; }

private:
  std::vector<std::string> names_of_outputs(size_t count) const {
    std::vector<std::string> names;
    for (size_t k = 0; k < count; ++k) names.push_back(fmt::format("h{}_{}", depth_, k));
    return names;
  }

  std::shared_ptr<Program::Impl> program_of_body(const LoopModel& body) const {
    auto program = std::make_shared<Program::Impl>();
    program->model = body.model;
    program->options = program_.options;
    program->symbolic = false;
    program->is_body = true;
    return program;
  }

  /// The inputs with sizes as numbers or variables, on the way that this call goes.
  std::vector<Value> at_seen_sizes(const std::vector<Value>& given) {
    const Shape sizes = go_on(sizes_of(given), true);
    std::vector<Value> inputs;
    auto size = sizes.begin();
    for (const Value& value : given)
      inputs.emplace_back(
          Tensor::input(fmt::format("x{}", inputs.size()), shape_from(size, value), value.dtype()));
    return inputs;
  }

  /// Runs an op of the host or a loop. Returns named inputs that stand for its outputs.
  std::vector<Value> on_host(HostStep step, const std::vector<Value>& inputs,
                             const std::vector<Value*>& live) {
    for (const Value& input : inputs)
      step.inputs.push_back(map_tensors(input, [&](const Tensor& t) { return output(t); }));
    keep(live);
    if (segment_->made) {
      check_made("", &step);
    } else {
      segment_->host = step;
      finish_segment();
    }
    run_segment();
    std::vector<Value> made;
    const Shape sizes = go_on(run(*segment_->host, *store_, &made), true);
    std::vector<Value> results;
    auto size = sizes.begin();
    for (size_t k = 0; k < made.size(); ++k) {
      const DType dtype = store_->values.at(step.outputs[k]).dtype(); // of strings, their ids'
      const Tensor stand_in =
          name(Tensor::input(step.outputs[k], shape_from(size, made[k]), dtype), step.outputs[k]);
      results.push_back(made[k].is_strings() ? Value::strings(stand_in) : Value(stand_in));
    }
    return results;
  }

  Tensor name(const Tensor& tensor, const std::string& name) {
    named_[&*detail::impl(tensor)] = name;
    kept_.push_back(tensor);
    return tensor;
  }

  /// Computes the tensor, and looks at it.
  std::vector<Scalar> see(const Tensor& tensor, const std::vector<Value*>& live) {
    if (!store_) throw NeedsInputs();
    const bool is_there = !stands_for(tensor, named_).empty();
    seen_ = output(tensor).inputs().at(0);
    if (!is_there) keep(live);
    if (segment_->made) {
      check_made(seen_, nullptr);
    } else {
      segment_->looked_at = seen_;
      finish_segment();
    }
    run_segment();
    return look_at(*store_, seen_);
  }

  /// Makes named inputs of what these values are, but for what follows from sizes alone.
  void keep(const std::vector<Value*>& live) {
    for (Value* value : live)
      *value = map_tensors(
          *value, [&](const Tensor& t) { return t.inputs().empty() && !is_constant(t) ? t : output(t); });
  }

  /// A named input that stands for the tensor from the next segment on; what needs no computing stays.
  Tensor output(const Tensor& tensor) {
    if (!stands_for(tensor, named_).empty()) return tensor;
    if (is_constant(tensor)) return tensor.realise();
    if (auto found = by_impl_.find(&*detail::impl(tensor)); found != by_impl_.end()) return found->second;
    const std::string called = fmt::format("v{}_{}", depth_, outputs_.size());
    outputs_.emplace(called, tensor);
    kept_.push_back(tensor);
    const Tensor stand_in = Tensor::input(called, tensor.shape(), tensor.dtype());
    by_impl_.emplace(&*detail::impl(tensor), stand_in);
    return name(stand_in, called);
  }

  /// Runs the present segment, which may name strings that the call knows by other ids.
  void run_segment() {
    outputs_.clear();
    by_impl_.clear();
    if (program_.strings.size() > store_->strings.known()) throw BeginAgain();
    run(*segment_, *store_);
  }

  /// To the segment for what was seen. Returns it, as sizes where it is `open` to many numbers.
  Shape go_on(const std::vector<Scalar>& seen, bool open) {
    const std::lock_guard lock(program_.mutex);
    Step step = follow(*segment_, seen, store_->sizes, &openings_);
    if (!step.segment)
      step = open ? add_open(program_, *segment_, seen, store_->sizes, variables_, openings_)
                  : add_closed(*segment_, seen, store_->sizes);
    segment_ = step.segment;
    if (!segment_->completed) segment_->made_at = store_->sizes;
    openings_.way.push_back(segment_);
    ++depth_;
    Shape numbers;
    if (step.branch) {
      openings_.taken.push_back(step.branch);
      numbers = {step.branch->numbers.begin(), step.branch->numbers.end()};
      for (const Expr number : numbers) collect_vars(number, variables_);
    } else if (open) {
      for (const Scalar& number : seen) numbers.emplace_back(number.as_int());
    }
    return numbers;
  }

  /// A segment that is there already computes what this trace takes from it: names stand for the same values.
  void check_made(const std::string& looked_at, const HostStep* host) const {
    bool same = segment_->looked_at == looked_at && segment_->host.has_value() == (host != nullptr);
    if (same && host) same = segment_->host->op == host->op;
    if (!looked_at.empty() || host) {
      const std::vector<KernelParam> made =
          segment_->code ? segment_->code->now().outputs() : std::vector<KernelParam>();
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
    return Tracer::names_values(origins_);
  }

  CompileOptions compile_options() {
    CompileOptions options = program_.options.compile;
    options.origins = std::move(origins_);
    origins_.clear();
    return options;
  }

  void compile_segment() {
    CompileOptions options = compile_options();
    if (program_.is_quick_first()) options.search = Search::Quick;
    segment_->code = std::make_shared<SegmentCode>(compile(outputs_, options));
    if (!program_.is_quick_first() || !segment_->code->now().quick()) return;
    options.search = Search::Full;
    program_.improver.add(segment_->code, outputs_, std::move(options));
  }

  void finish_segment() {
    if (!outputs_.empty()) compile_segment();
    segment_->strings = program_.strings.size();
    const std::lock_guard lock(program_.mutex);
    segment_->made = true;
  }

  const Program::Impl& program_;
  Segment* segment_;
  Store* store_;
  Openings& openings_;
  std::vector<Expr> variables_; // of sizes, in the order in which the way has them
  int depth_ = 0;
  std::string seen_;
  NamedTensors outputs_;                     // of the segment being traced
  NamedTensors origins_;                     // values that its nodes made, by the nodes' names
  std::map<const void*, Tensor> by_impl_;    // what stands for them
  std::map<const void*, std::string> named_; // tensors that are named inputs
  std::vector<Tensor> kept_;                 // so that no address in the maps is used again
};

} // namespace

Segment& make_segments(const Program::Impl& program, Segment& root, Store* store,
                       const std::vector<Value>& inputs, Openings& openings) {
  return Maker(program, root, store, openings).make(inputs);
}

} // namespace lathe::onnx
