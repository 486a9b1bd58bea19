// Programs: made from models, and called.
#include "onnx/program/program.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "lathe/detail/access.hpp"
#include "lathe/detail/instruction_timer.hpp"
#include "onnx/program/bounds.hpp"
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
  const auto is_open = [&](Expr size) { return size.is_var() && !options.sizes.count(size.name()); };
  return std::any_of(model.inputs.begin(), model.inputs.end(), [&](const Port& port) {
    return port.shape && std::any_of(port.shape->begin(), port.shape->end(), is_open);
  });
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
  Openings none;
  make_segments(program, *root, nullptr, inputs, none);
  const std::lock_guard lock(program.mutex);
  program.roots[key] = std::move(root);
}

/// Makes the tree for all sizes, in the widest bounds of sizes in which it can be made. `typical`: as
/// declared_inputs.
void make_root_for_all_sizes(Program::Impl& program, const Sizes* typical) {
  in_widest_bounds(program.largest_size, [&](int64_t largest) {
    {
      const std::lock_guard lock(program.mutex);
      program.largest_size = largest;
    }
    Declared declared = declared_for_all_sizes(program);
    declared.typical = typical;
    make_root(program, "", declared_inputs(*program.model, program.options, declared));
  });
}

/// The way's first segment, if it is made.
const Segment* made_root(const Program::Impl& program, const Way& way) {
  const std::lock_guard lock(program.mutex);
  const auto found = program.roots.find(way.key);
  return found != program.roots.end() && found->second->made ? found->second.get() : nullptr;
}

/// What a way's tree is traced with. `typical`: sizes that the model names.
std::vector<Value> inputs_of(const Program::Impl& program, const Way& way, const std::vector<Value>& fed,
                             const Sizes& typical) {
  if (way.made_for == Way::For::Shapes) return inputs_like(fed);
  ImportOptions options = program.options;
  options.sizes.insert(way.sizes.begin(), way.sizes.end());
  Declared declared = declared_for_all_sizes(program);
  declared.typical = &typical;
  return declared_inputs(*program.model, options, declared);
}

/// Of a way whose tree can't be made: the next wider one, from now on.
Way wider_way(Program::Impl& program, const Way& way, const std::vector<Value>& fed) {
  const std::lock_guard changes(program.mutex);
  switch (way.made_for) {
  case Way::For::Sizes: program.roots.erase(way.key); return {Way::For::AllSizes, ""};
  case Way::For::EmptySizes: program.without_tree.insert(way.key); break;
  case Way::For::AllSizes: program.symbolic = false; break;
  case Way::For::Shapes: break;
  }
  return way_of_shapes(fed);
}

/// Makes the tree for a way that is not for one call's shapes. Where that can't be done, the way changes to a
/// wider one, in the end to that of the call's shapes, and the error of that one is the caller's.
void make_way(Program::Impl& program, Way& way, const std::vector<Value>& fed, const Sizes& sizes) {
  const std::lock_guard lock(program.making);
  if (made_root(program, way)) return; // by another thread
  try {
    if (way.made_for != Way::For::AllSizes) {
      make_root(program, way.key, inputs_of(program, way, fed, sizes));
    } else {
      make_root_for_all_sizes(program, &sizes);
      const std::lock_guard lock(program.mutex);
      if (!in_bounds(program, fed)) way = way_of_shapes(fed); // the bounds may have changed
    }
  } catch (const Error&) {
    way = wider_way(program, way, fed);
  }
}

} // namespace

void make_for_all_sizes(Program::Impl& program) {
  const std::lock_guard lock(program.making);
  if (program.symbolic && !program.looks && !made_root(program, {Way::For::AllSizes, ""}))
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

/// Makes what is missing of the way that the call takes, and runs it all. A model that can't be traced with
/// variables in place of numbers that it sees is traced with the numbers.
const Segment& make_rest(Program::Impl& program, Segment& root, const std::vector<Value>& inputs,
                         Store& store) {
  const Sizes at_start = store.sizes;
  Openings openings;
  const auto end = [&](bool failed) {
    const std::lock_guard links(program.mutex);
    settle(openings, failed);
  };
  const auto without_last = [&] {
    if (openings.taken.empty()) return false;
    openings.avoided.insert(openings.taken.back());
    store.sizes = at_start;
    return true;
  };
  try {
    for (;;) {
      try {
        const Segment& last = make_segments(program, root, &store, inputs, openings);
        end(false);
        return last;
      } catch (const Error&) {
        if (!without_last()) throw;
      } catch (const InternalError&) {
        if (!without_last()) throw;
      }
    }
  } catch (...) {
    end(true);
    throw;
  }
}

/// The first segment of a way, made or not. `sizes`: of the call.
Segment& root_of(Program::Impl& program, const Way& way, const Sizes& sizes) {
  const std::lock_guard links(program.mutex);
  auto& place = program.roots[way.key];
  if (!place) place = std::make_unique<Segment>();
  if (place->made) return *place;
  if (program.is_body) place->looks_at_sizes = place->made = true;
  place->made_at = sizes;
  for (const auto& [key, root] : program.roots)
    if (root->completed && way.made_for == Way::For::AllSizes) place->example = {root.get(), root->made_at};
  return *place;
}

/// Lowers the bound of sizes for the tree for all sizes, whose buffers it does not fit. False where this tree
/// is there, no lower bound is left, or it would not hold for the call.
bool lower_bound_of(Program::Impl& program, const Way& way, const std::vector<Value>& fed) {
  const std::lock_guard changes(program.mutex);
  const auto root = program.roots.find(way.key);
  if (root != program.roots.end() && root->second->made) return false;
  const auto lower = std::find_if(std::begin(kSizeBounds), std::end(kSizeBounds),
                                  [&](int64_t bound) { return bound < program.largest_size; });
  if (lower == std::end(kSizeBounds)) return false;
  program.largest_size = *lower;
  return in_bounds(program, fed);
}

/// As make_rest. A model that can't be traced for all sizes is traced for those of the call, and after a few
/// such calls for those of each. The caller holds program.making.
const Segment& make_rest_of(Program::Impl& program, Way& way, const std::vector<Value>& fed, Store& store) {
  const Sizes at_start = store.sizes;
  const auto make = [&]() -> const Segment& {
    store.sizes = at_start;
    Segment& root = root_of(program, way, at_start);
    return make_rest(program, root, inputs_of(program, way, fed, root.made_at), store);
  };
  if (way.made_for == Way::For::Sizes || way.made_for == Way::For::Shapes) return make();
  try {
    return make();
  } catch (const Error& error) {
    const bool bounds = way.made_for == Way::For::AllSizes && error.kind() == ErrorKind::Limit;
    if (bounds && lower_bound_of(program, way, fed)) {
      store.sizes = at_start;
      return make_rest_of(program, way, fed, store);
    }
  } catch (const InternalError&) {
  }
  const Way failed = std::exchange(way, way_of_shapes(fed));
  const Segment& last = make();
  constexpr int kMostFailures = 3; // the calls may have been odd ones
  if (++program.failures >= kMostFailures) (void)wider_way(program, failed, fed);
  return last;
}

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
