#include "onnx/program/bounds.hpp"

#include "onnx/program/inputs.hpp"
#include "onnx/program/versions.hpp"

namespace lathe::onnx {
namespace {

/// What a model makes of symbols for the sizes that it names.
struct Traced {
  std::vector<Value> results{};
  bool looks = false; // at a value, at which the trace ended
};

/// Traces the model in the widest bounds of sizes in which it can be.
Traced traced(Program::Impl& program, int64_t widest = kLargestNamedSize) {
  NoInputs looker(false);
  Traced out;
  in_widest_bounds(widest, [&](int64_t largest) {
    program.largest_size = largest;
    const std::vector<Value> inputs =
        declared_inputs(*program.model, program.options, declared_for_all_sizes(program));
    try {
      out.results = Tracer(*program.model, looker).run(inputs);
    } catch (const NeedsInputs&) {
      out.looks = true;
    }
  });
  return out;
}

/// Nothing for an error.
std::optional<Traced> traced_if_it_can_be(Program::Impl& program, int64_t widest = kLargestNamedSize) {
  try {
    return traced(program, widest);
  } catch (const Error&) {
    return {};
  }
}

/// Lowers the bound of sizes, as little as will do: a table of positions may have 512 rows.
std::optional<Traced> traced_up_to_lower_bound(Program::Impl& program) {
  std::optional<Traced> best;
  int64_t widest = kLargestNamedSize;
  for (auto bound = std::rbegin(kSizeBounds); bound != std::rend(kSizeBounds); ++bound) {
    auto out = traced_if_it_can_be(program, *bound);
    if (!out) break;
    best = std::move(out);
    widest = program.largest_size;
  }
  program.largest_size = widest;
  return best;
}

/// Gives each size that the model leaves open the number, and takes it from as many as can do without, so
/// that the model can be traced. Nothing, and no numbers, if that does not help.
std::optional<Traced> traced_with(Program::Impl& program, Sizes& numbers, int64_t number) {
  numbers.clear();
  for_each_named_size(program.model->inputs, [&](Expr size) {
    if (size.lo() < number && number <= size.hi()) numbers[size.name()] = number;
  });
  std::optional<Traced> out = traced_if_it_can_be(program);
  if (!out) {
    numbers.clear();
    return {};
  }
  for (const auto& [name, given] : Sizes(numbers)) {
    numbers.erase(name);
    if (auto without = traced_if_it_can_be(program))
      out = std::move(without);
    else
      numbers.emplace(name, given);
  }
  return out;
}

/// Raises the least sizes, as few of them as will do: a window may not fit into smaller ones.
std::optional<Traced> traced_from_raised_sizes(Program::Impl& program) {
  for (const int64_t bound : {16, 64, 256, 1024})
    if (auto out = traced_with(program, program.smallest_sizes, bound)) return out;
  return {};
}

/// Lets sizes be multiples, as few of them and of as small numbers as will do: what was halved five times and
/// doubled again is as large as before for multiples of 32 alone.
std::optional<Traced> traced_in_steps(Program::Impl& program) {
  constexpr int64_t kStep = 32;
  std::optional<Traced> out = traced_with(program, program.steps, kStep);
  for (int64_t step = kStep / 2; out && step > 1; step /= 2) {
    const Sizes larger = program.steps;
    for (auto& [name, each] : program.steps) each = step;
    auto smaller = traced_if_it_can_be(program);
    if (!smaller) {
      program.steps = larger;
      break;
    }
    out = std::move(smaller);
  }
  return out;
}

/// Traces the model for as many sizes as it can be traced for. Error where that is for none.
Traced traced_for_most_sizes(Program::Impl& program) {
  std::optional<Traced> open;
  try {
    open = traced(program);
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::Shape) open = traced_from_raised_sizes(program);
    if (error.kind() == ErrorKind::Shape && !open) open = traced_in_steps(program);
    if (error.kind() == ErrorKind::Shape && !open) open = traced_up_to_lower_bound(program);
    if (!open) throw;
  }
  return *open;
}

/// Fixes the sizes of first axes at 1: some models name their batch and have states of one sequence. False if
/// there are none.
bool pin_batch(Program::Impl& program) {
  for (const Port& port : program.model->inputs)
    if (port.shape && !port.shape->empty())
      if (const Expr size = port.shape->front(); size.is_var() && size.lo() <= 1)
        program.pinned.emplace(size.name(), 1);
  return !program.pinned.empty();
}

/// A search or moves that were asked for are of one program.
bool has_versions(const Program::Impl& program) {
  const CompileOptions& compile = program.options.compile;
  return program.options.versions > 0 && !compile.tune && compile.moves.empty();
}

} // namespace
void find_bounds(Program::Impl& program) {
  Traced open;
  try {
    open = traced_for_most_sizes(program);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::Shape || !pin_batch(program)) throw;
    open = traced_for_most_sizes(program);
  }
  program.looks = open.looks;
  if (has_versions(program)) program.version_sizes = sizes_of_versions(program, open.results);
}

} // namespace lathe::onnx
