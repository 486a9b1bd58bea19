// Programs: made from models, and called.
#include "onnx/program/program.hpp"

#include <fmt/format.h>

#include "lathe/detail/access.hpp"
#include "lathe/detail/instruction_timer.hpp"
#include "onnx/program/inputs.hpp"
#include "onnx/program/segment_maker.hpp"
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
  NoInputs looker;
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
  const auto is_open = [&](Expr size) { return size.is_var() && !options.sizes.count(size.name()); };
  return std::any_of(model.inputs.begin(), model.inputs.end(), [&](const Port& port) {
    return port.shape && std::any_of(port.shape->begin(), port.shape->end(), is_open);
  });
}

/// What a model makes of symbols for the sizes that it names.
struct Traced {
  std::vector<Value> inputs, results;
};

/// Traces the model in the widest bounds of sizes in which it can be. NeedsInputs or Error where it can't be.
Traced traced(Program::Impl& program) {
  NoInputs looker;
  Traced out;
  in_widest_bounds(kLargestNamedSize, [&](int64_t largest) {
    program.largest_size = largest;
    out.inputs = declared_inputs(*program.model, program.options,
                                 {.largest = largest, .smallest = program.smallest_sizes});
    out.results = Tracer(*program.model, looker).run(out.inputs);
  });
  return out;
}

/// Bounds to try where a model can't be traced for the least sizes, as a window does not fit into them.
constexpr int64_t kRaisedSizes[] = {16, 64};

/// Raises the least sizes, as few of them as will do, so that the model can be traced. Nothing if that does
/// not help.
std::optional<Traced> traced_from_raised_sizes(Program::Impl& program) {
  const auto attempt = [&]() -> std::optional<Traced> {
    try {
      return traced(program);
    } catch (const Error&) {
      return {};
    }
  };
  std::map<std::string, int64_t>& smallest = program.smallest_sizes;
  for (const int64_t bound : kRaisedSizes) {
    for (const Port& port : program.model->inputs)
      for (size_t axis = 0; port.shape && axis < port.shape->size(); ++axis)
        if (const Expr size = (*port.shape)[axis]; size.is_var() && size.lo() < bound && bound <= size.hi())
          smallest[size.name()] = bound;
    std::optional<Traced> out = attempt();
    if (!out) continue;
    for (const auto& [name, raised] : std::map(smallest)) {
      smallest.erase(name);
      if (auto without = attempt())
        out = std::move(without);
      else
        smallest.emplace(name, raised);
    }
    return out;
  }
  smallest.clear();
  return {};
}

/// Traces the model with sizes that are symbols, to find out whether it can be, in which bounds, and which of
/// them versions fix. Makes nothing. NeedsInputs or Error where it can't be.
void find_version_sizes(Program::Impl& program) {
  std::optional<Traced> open;
  try {
    open = traced(program);
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::Shape) open = traced_from_raised_sizes(program);
    if (!open) throw;
  }
  // A search or moves that were asked for are of one program.
  const CompileOptions& compile = program.options.compile;
  if (program.options.versions > 0 && !compile.tune && compile.moves.empty())
    program.version_sizes = sizes_of_versions(open->inputs, open->results);
}

/// Error for what is wrong with the options, which would otherwise show in the first call.
void check_options(CompileOptions options) {
  options.trace.clear();
  options.tune.reset();
  options.moves.clear();
  (void)compile({{"x", Tensor::input("x", {1})}}, options);
}

/// Makes a tree of one segment of these inputs, and lets calls take it.
void make_root(Program::Impl& program, const std::string& key, const std::vector<Value>& inputs) {
  auto root = std::make_unique<Segment>();
  make_segments(program, *root, nullptr, inputs);
  const std::lock_guard lock(program.mutex);
  program.roots[key] = std::move(root);
}

/// Makes the tree for all sizes, in the widest bounds of sizes in which it can be made. `fed`: as
/// declared_inputs.
void make_root_for_all_sizes(Program::Impl& program, const std::vector<Value>* fed) {
  in_widest_bounds(program.largest_size, [&](int64_t largest) {
    {
      const std::lock_guard lock(program.mutex);
      program.largest_size = largest;
    }
    make_root(program, "",
              declared_inputs(*program.model, program.options,
                              {.largest = largest, .fed = fed, .smallest = program.smallest_sizes}));
  });
}

/// The way's first segment, if it is made.
const Segment* made_root(const Program::Impl& program, const Way& way) {
  const std::lock_guard lock(program.mutex);
  const auto found = program.roots.find(way.key);
  return found != program.roots.end() && found->second->made ? found->second.get() : nullptr;
}

/// Makes the tree for a way that is not for one call's shapes. Where that can't be done, the way changes to a
/// wider one, in the end to that of the call's shapes, and the error of that one is the caller's.
void make_way(Program::Impl& program, Way& way, const std::vector<Value>& fed) {
  const std::lock_guard lock(program.making);
  if (made_root(program, way)) return; // by another thread
  const bool is_version = way.made_for == Way::For::Sizes;
  try {
    if (is_version) {
      ImportOptions options = program.options;
      options.sizes.insert(way.sizes.begin(), way.sizes.end());
      make_root(program, way.key,
                declared_inputs(
                    *program.model, options,
                    {.largest = program.largest_size, .fed = &fed, .smallest = program.smallest_sizes}));
    } else {
      make_root_for_all_sizes(program, &fed);
      const std::lock_guard lock(program.mutex);
      if (!in_bounds(program, fed)) way = way_of_shapes(fed); // the bounds may have changed
    }
  } catch (const Error&) {
    {
      const std::lock_guard changes(program.mutex);
      if (is_version)
        program.roots.erase(way.key);
      else
        program.symbolic = false;
    }
    way = is_version ? Way{Way::For::AllSizes, ""} : way_of_shapes(fed);
  }
}

} // namespace

void make_for_all_sizes(Program::Impl& program) {
  const std::lock_guard lock(program.making);
  if (program.symbolic && !made_root(program, {Way::For::AllSizes, ""}))
    make_root_for_all_sizes(program, nullptr);
}

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
    if (has_symbols) find_version_sizes(*program);
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
  const Segment* segment = made_root(program, way);
  while (!segment && way.made_for != Way::For::Shapes) {
    const detail::InstructionTimer timer("trace", way.key);
    make_way(program, way, fed);
    segment = made_root(program, way);
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
  const detail::InstructionTimer timer("trace", way.key);
  const std::lock_guard lock(program.making);
  Segment* root = nullptr;
  {
    const std::lock_guard links(program.mutex);
    auto& place = program.roots[way.key];
    if (!place) place = std::make_unique<Segment>();
    root = place.get();
  }
  return make_segments(program, *root, &store, inputs_like(fed));
}

} // namespace

NamedValues Program::operator()(const NamedValues& inputs) const {
  std::optional<Way> way;
  for (;;) {
    Store store{{}, CallStrings(impl_->strings)};
    const std::vector<Value> fed = in_order(*impl_->model, inputs, store);
    if (!way) way = way_of(*impl_, fed);
    try {
      const Segment& last = run_to_end(*impl_, *way, fed, store);
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

void Program::wait_for_best() const { impl_->improver.wait(); }

std::vector<Executable> Program::segments() const {
  std::lock_guard lock(impl_->mutex);
  std::vector<const Segment*> all;
  for (const auto& [key, root] : impl_->roots) all.push_back(root.get());
  std::vector<Executable> out;
  for (size_t k = 0; k < all.size(); ++k) { // grows as it goes
    if (all[k]->made && all[k]->code) out.push_back(all[k]->code->now());
    for (const auto& [elements, next] : all[k]->next) all.push_back(next.get());
  }
  return out;
}

} // namespace lathe::onnx
