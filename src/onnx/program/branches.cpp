#include "onnx/program/branches.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "onnx/program/inputs.hpp"

namespace lathe::onnx {
namespace {

/// The least value of a variable: a size of 0 or 1 means something else than more to many ops.
constexpr int64_t kLeastOpen = 2;
constexpr int64_t kLargestOpen = int64_t{1} << 30;
/// As often branches are tried in vain behind one segment.
constexpr int64_t kMostRefusals = 4;

/// The bound of a variable of this value: kernels with small sizes count in 32 bits.
int64_t bound_of(int64_t value) {
  int64_t bound = kLargestNamedSize;
  while (bound < 4 * value && bound < kLargestOpen) bound *= 2;
  return value <= kLargestNamedSize ? kLargestNamedSize : bound;
}

std::optional<int64_t> value_at(Expr number, const Sizes& sizes) {
  std::vector<Expr> variables;
  collect_vars(number, variables);
  for (const Expr variable : variables)
    if (!sizes.count(variable.name())) return {};
  return evaluate(number, [&](Expr variable) { return sizes.at(variable.name()); });
}

/// Whether the branch is for these numbers; its variables get their values then.
bool takes(const OpenBranch& branch, const std::vector<int64_t>& seen, Sizes& sizes) {
  if (branch.numbers.size() != seen.size()) return false;
  Sizes with = sizes;
  for (size_t k = 0; k < seen.size(); ++k) {
    const Expr number = branch.numbers[k];
    if (const auto known = value_at(number, with)) {
      if (*known != seen[k]) return false;
    } else { // a variable of this branch, or its negative
      if (seen[k] < number.lo() || seen[k] > number.hi()) return false;
      const Expr variable = number.is_var() ? number : -number;
      with.emplace(variable.name(), std::abs(seen[k]));
    }
  }
  sizes = std::move(with);
  return true;
}

std::vector<int64_t> integers_of(const std::vector<Scalar>& seen) {
  std::vector<int64_t> numbers;
  for (const Scalar& number : seen) numbers.push_back(number.as_int());
  return numbers;
}

/// What another call saw, and how it went on.
struct Instance {
  std::vector<int64_t> seen;
  Example example;
};

/// The calls for which the segments behind this one were made. `known`: sizes that they had beside their own.
std::vector<Instance> instances(const Segment& segment, const Sizes& known) {
  std::vector<Instance> all;
  const auto add = [&](const Segment& next, std::vector<int64_t> seen) {
    Sizes sizes = known;
    sizes.insert(next.made_at.begin(), next.made_at.end());
    if (next.completed) all.push_back({std::move(seen), {&next, std::move(sizes)}});
  };
  for (const auto& [seen, next] : segment.next) add(*next, integers_of(seen));
  for (const OpenBranch& branch : segment.open) {
    if (branch.state != OpenBranch::State::Taken) continue;
    std::vector<int64_t> seen;
    for (const Expr number : branch.numbers)
      seen.push_back(value_at(number, branch.segment->made_at).value_or(0));
    add(*branch.segment, std::move(seen));
  }
  return all;
}

std::string unused_name(const Program::Impl& program) {
  std::set<std::string> used;
  for_each_named_size(program.model->inputs, [&](Expr size) { used.insert(size.name()); });
  for (;;)
    if (std::string name = fmt::format("seen{}", program.variables++); !used.count(name)) return name;
}

/// What is alike in what two calls saw.
struct Alike {
  std::vector<Expr> numbers{};
  Sizes sizes; // of this call
  Example example;
};

/// A variable plus a constant, or a constant minus a variable, if that is right in both calls and has one
/// sign.
std::optional<Expr> near_variable(const std::vector<Expr>& variables, const Alike& alike, int64_t here,
                                  int64_t there) {
  for (const Expr variable : variables) {
    const auto a = alike.sizes.find(variable.name()), b = alike.example.sizes.find(variable.name());
    if (a == alike.sizes.end() || b == alike.example.sizes.end()) continue;
    const Expr above = variable + (here - a->second), below = (here + a->second) - variable;
    if (here - a->second == there - b->second && above.lo() >= 1) return above;
    if (here + a->second == there + b->second && below.hi() <= -1) return below;
  }
  return {};
}

/// Nothing where a number is none that a variable may have.
std::optional<Alike> alike_in(const Program::Impl& program, const Instance& instance,
                              const std::vector<int64_t>& seen, const Sizes& sizes,
                              std::vector<Expr> variables) {
  if (seen.size() != instance.seen.size()) return {};
  Alike alike{.sizes = sizes, .example = instance.example};
  for (size_t k = 0; k < seen.size(); ++k) {
    const int64_t here = seen[k], there = instance.seen[k];
    if (here == there) {
      alike.numbers.emplace_back(here);
    } else if (const auto near = near_variable(variables, alike, here, there)) {
      alike.numbers.push_back(*near);
    } else {
      const int64_t size = std::abs(here), other = std::abs(there);
      if ((here < 0) != (there < 0) || std::min(size, other) < kLeastOpen || size > kLargestOpen) return {};
      const Expr variable = Var(unused_name(program), kLeastOpen, bound_of(size), size).expr();
      alike.numbers.push_back(here < 0 ? -variable : variable);
      alike.sizes.emplace(variable.name(), size);
      alike.example.sizes.emplace(variable.name(), other);
      variables.push_back(variable);
    }
  }
  return alike;
}

std::vector<Instance> example_instances(const Segment& segment) {
  const Example& example = segment.example;
  return example.segment ? instances(*example.segment, example.sizes) : std::vector<Instance>();
}

void add_variables(const std::vector<Expr>& numbers, std::vector<Expr>& variables) {
  for (const Expr number : numbers) collect_vars(number, variables);
}

} // namespace

Step follow(const Segment& segment, const std::vector<Scalar>& seen, Sizes& sizes, const Openings* openings) {
  const auto found = segment.next.find(seen);
  Segment* closed = found != segment.next.end() && found->second->made ? found->second.get() : nullptr;
  if ((closed && closed->completed) || segment.open.empty()) return {.segment = closed};
  const auto may_take = [&](const OpenBranch& branch) {
    if (branch.state == OpenBranch::State::Refused || (openings && openings->avoided.count(&branch)))
      return false;
    return branch.state == OpenBranch::State::Taken || openings;
  };
  const std::vector<int64_t> numbers = integers_of(seen);
  for (const OpenBranch& branch : segment.open)
    if (may_take(branch) && takes(branch, numbers, sizes)) return {branch.segment.get(), &branch};
  return {.segment = closed};
}

Step add_closed(Segment& segment, const std::vector<Scalar>& seen, const Sizes& sizes) {
  auto& next = segment.next[seen];
  if (!next) next = std::make_unique<Segment>();
  next->made_at = sizes;
  if (const Segment* example = segment.example.segment)
    if (const auto same = example->next.find(seen); same != example->next.end() && same->second->completed) {
      next->example = {same->second.get(), segment.example.sizes};
      next->example.sizes.insert(same->second->made_at.begin(), same->second->made_at.end());
    }
  return {.segment = next.get()};
}

Step add_open(const Program::Impl& program, Segment& segment, const std::vector<Scalar>& seen, Sizes& sizes,
              std::vector<Expr>& variables, Openings& openings) {
  std::set<const Segment*> tried;
  int64_t refusals = 0;
  for (const OpenBranch& branch : segment.open) {
    if (openings.avoided.count(&branch)) return add_closed(segment, seen, sizes); // one try a call
    if (branch.state != OpenBranch::State::Refused) continue;
    tried.insert(branch.like);
    ++refusals;
  }
  if (refusals >= kMostRefusals) return add_closed(segment, seen, sizes);
  const std::vector<int64_t> numbers = integers_of(seen);
  std::vector<Instance> others = instances(segment, {});
  for (Instance& other : example_instances(segment)) others.push_back(std::move(other));
  for (const Instance& other : others) {
    if (other.seen == numbers) break; // what is the same is no variable
    if (tried.count(other.example.segment)) continue;
    auto alike = alike_in(program, other, numbers, sizes, variables);
    if (!alike) continue;
    segment.open.push_back({std::move(alike->numbers), std::make_unique<Segment>(), other.example.segment});
    const OpenBranch& branch = segment.open.back();
    openings.made.push_back({&segment, &branch});
    sizes = std::move(alike->sizes);
    add_variables(branch.numbers, variables);
    branch.segment->made_at = sizes;
    branch.segment->example = std::move(alike->example);
    return {branch.segment.get(), &branch};
  }
  return add_closed(segment, seen, sizes);
}

void settle(const Openings& openings, bool failed) {
  // The last first: a branch goes with those that were made behind it.
  for (auto made = openings.made.rbegin(); made != openings.made.rend(); ++made) {
    std::list<OpenBranch>& open = made->behind->open;
    const auto branch =
        std::find_if(open.begin(), open.end(), [&](const OpenBranch& b) { return &b == made->branch; });
    const auto& taken = openings.taken;
    if (!failed && openings.avoided.count(made->branch)) {
      branch->state = OpenBranch::State::Refused;
      branch->segment.reset();
    } else if (!failed && std::find(taken.begin(), taken.end(), made->branch) != taken.end()) {
      branch->state = OpenBranch::State::Taken;
    } else {
      open.erase(branch);
    }
  }
  if (!failed)
    for (Segment* segment : openings.way) segment->completed = true;
}

} // namespace lathe::onnx
