// Programs: made from models, and called.
#include "onnx/program/program.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "lathe/detail/access.hpp"
#include "lathe/detail/instruction_timer.hpp"
#include "onnx/program/bounds.hpp"
#include "onnx/program/inputs.hpp"
#include "onnx/program/make_way.hpp"
#include "onnx/program/versions.hpp"
#include "onnx/rules.hpp"

namespace lathe::onnx {
namespace {

bool before(const std::vector<Scalar>& a, const std::vector<Scalar>& b) {
  return std::lexicographical_compare(a.begin(), a.end(), b.begin(), b.end(),
                                      [](const Scalar& x, const Scalar& y) { return x.bits() < y.bits(); });
}

void check_supported(const Model& model) {
  const std::vector<Problem> missing = model.problems();
  if (!missing.empty())
    throw Error(ErrorKind::Name,
                fmt::format("{}: {}{}", detail::impl(model)->path, missing[0].message,
                            missing.size() > 1 ? fmt::format(" (and {} more)", missing.size() - 1) : ""));
}

} // namespace

Segment::Segment() : next(before) {}

Segment::~Segment() {
  std::vector<std::unique_ptr<Segment>> rest;
  const auto take = [&](Segment& segment) {
    for (auto& [elements, following] : segment.next) rest.push_back(std::move(following));
    for (OpenBranch& branch : segment.open)
      if (branch.segment) rest.push_back(std::move(branch.segment));
    segment.next.clear();
    segment.open.clear();
  };
  for (take(*this); !rest.empty();) {
    const std::unique_ptr<Segment> last = std::move(rest.back());
    rest.pop_back();
    take(*last);
  }
}

bool has_symbols(const Value& value) { return value.integers() && !is_static(*value.integers()); }

std::vector<Scalar> NoInputs::look(const Tensor&, const std::vector<Value*>&) { throw NeedsInputs(); }

Shape NoInputs::look_at_sizes(const Tensor&, const std::vector<Value*>&) { throw NeedsInputs(); }

std::vector<Value> NoInputs::on_host(const HostOp&, const std::vector<Value>&, const std::vector<Value*>&) {
  throw NeedsInputs();
}

std::vector<Value> NoInputs::loop(const LoopCall&, const std::vector<Value*>&) { throw NeedsInputs(); }

namespace {

/// Error(Value) for a value that no tensor of numbers stands for.
void check_numbers(const Model::Impl& model, const char* what, const std::string& name, Value::Kind kind) {
  if (kind == Value::Kind::Tensor) return;
  throw Error(ErrorKind::Value,
              fmt::format("{}: {} '{}' is {}, expected a tensor of numbers", model.path, what, name,
                          kind == Value::Kind::Strings ? "of strings" : "no tensor"));
}

} // namespace

NamedTensors Model::tensors(const ImportOptions& options, NamedTensors* values) const {
  check_supported(*this);
  for (const Port& port : impl_->inputs) check_numbers(*impl_, "input", port.name, port.kind);
  Model::Impl simplified = *impl_;
  apply_rules(simplified);
  NoInputs looker(true);
  NamedTensors tensors;
  try {
    std::vector<Value> results;
    in_widest_bounds(kLargestNamedSize, [&](int64_t largest) {
      if (values) values->clear();
      results = Tracer(simplified, looker, values ? Tracer::names_values(*values) : Tracer::Observer{})
                    .run(declared_inputs(simplified, options, {.largest = largest, .by_name = true}));
    });
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

namespace {

/// Whether the model's inputs name sizes that the options don't fix.
bool leaves_sizes_open(const Model::Impl& model, const ImportOptions& options) {
  bool open = false;
  for_each_named_size(model.inputs, [&](Expr size) { open |= !options.sizes.count(size.name()); });
  return open;
}

/// Error for what is wrong with the options, which would otherwise show in the first call.
void check_options(CompileOptions options) {
  options.trace.clear();
  options.tune.reset();
  options.moves.clear();
  (void)compile({{"x", Tensor::input("x", {1})}}, options);
}

} // namespace

Program Model::compile(const ImportOptions& options) const {
  check_supported(*this);
  check_options(options.compile);
  auto program = std::make_shared<Program::Impl>();
  auto simplified = std::make_shared<Model::Impl>(*impl_);
  apply_rules(*simplified);
  program->model = std::move(simplified);
  program->options = options;
  const bool has_symbols = leaves_sizes_open(*program->model, options);
  try {
    if (has_symbols) find_bounds(*program);
    if (program->version_sizes.empty()) make_for_all_sizes(*program);
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
const Segment& run_to_end(Program::Impl& program, Way& way, const std::vector<Value>& fed, Store& store) {
  const Sizes at_start = store.sizes;
  const Segment* segment = made_root(program, way);
  while (!segment && way.made_for != Way::For::Shapes && !program.looks) {
    const detail::InstructionTimer timer("trace", way.key);
    make_way(program, way, fed, at_start);
    segment = made_root(program, way);
  }
  while (segment) {
    if (segment->strings > store.strings.known()) throw BeginAgain();
    run(*segment, store);
    if (segment->is_last()) return *segment;
    const std::vector<Scalar> seen = segment->looks_at_sizes ? sizes_of(fed)
                                     : segment->host         ? run(*segment->host, store)
                                                             : look_at(store, segment->looked_at);
    const detail::InstructionTimer timer("jump", segment->looked_at);
    const std::lock_guard lock(program.mutex);
    const Segment* next = follow(*segment, seen, store.sizes).segment;
    segment = next && next->made ? next : nullptr;
  }
  const detail::InstructionTimer timer("trace", way.key);
  const std::lock_guard lock(program.making);
  store.sizes = at_start;
  return make_rest_of(program, way, fed, store);
}

} // namespace

NamedValues call_program(Program::Impl& program, const NamedValues& inputs) {
  std::optional<Way> way;
  for (;;) {
    Store store{{}, CallStrings(program.strings)};
    const std::vector<Value> fed = in_order(*program.model, inputs, store);
    store.sizes = named_sizes(program, fed);
    if (!way && !program.is_body) check_fixed_sizes(program, fed);
    if (!way) way = program.is_body ? way_of_ranks(fed) : way_of(program, fed);
    try {
      const Segment& last = run_to_end(program, *way, fed, store);
      const detail::InstructionTimer timer("return", "");
      NamedValues outputs;
      for (const auto& [name, value] : last.results)
        outputs.emplace(name, has_symbols(value) ? at_sizes(value, store.sizes) : at_hand(value, store));
      return outputs;
    } catch (const BeginAgain&) { // the table has grown, and every segment adds to it but once
    }
  }
}

NamedValues Program::operator()(const NamedValues& inputs) const { return call_program(*impl_, inputs); }

const std::vector<Port>& Program::inputs() const { return impl_->model->inputs; }
const std::vector<Port>& Program::outputs() const { return impl_->model->graph.outputs; }

namespace {

/// Calls visit(segment) for each that is made, those of loops' bodies after their loop, and done(program) for
/// the program and for these bodies. Locks their mutexes, one at a time.
template <class Visit, class Done>
void for_each_segment(const Program::Impl& program, Visit&& visit, Done&& done) {
  std::vector<const Segment*> all;
  std::vector<const Program::Impl*> bodies;
  {
    const std::lock_guard lock(program.mutex);
    for (const auto& [key, root] : program.roots) all.push_back(root.get());
    for (size_t k = 0; k < all.size(); ++k) { // grows as it goes
      if (all[k]->made) visit(*all[k]);
      if (all[k]->made && all[k]->host && all[k]->host->loop_body)
        bodies.push_back(all[k]->host->loop_body.get());
      for (const auto& [elements, next] : all[k]->next) all.push_back(next.get());
      for (const OpenBranch& branch : all[k]->open)
        if (branch.state == OpenBranch::State::Taken) all.push_back(branch.segment.get());
    }
  }
  done(program);
  for (const Program::Impl* body : bodies) for_each_segment(*body, visit, done);
}

} // namespace

void Program::wait_for_best() const {
  for_each_segment(
      *impl_, [](const Segment&) {}, [](const Program::Impl& program) { program.improver.wait(); });
}

std::vector<Executable> Program::segments() const {
  std::vector<Executable> out;
  const auto add = [&](const Segment& segment) {
    if (segment.code) out.push_back(segment.code->now());
  };
  for_each_segment(*impl_, add, [](const Program::Impl&) {});
  return out;
}

} // namespace lathe::onnx
