#include "compile/run/kernel_order.hpp"

#include <algorithm>
#include <set>
#include <unordered_map>

#include "compile/front/shape_values.hpp"
#include "compile/run/placed_program.hpp"
#include "lathe/error.hpp"

namespace lathe::pipeline {
namespace {

using Kernels = std::vector<search::KernelPlanRef>;

/// The intermediates that each kernel touches, numbered, and the kernels that touch each intermediate.
struct Uses {
  std::vector<std::vector<size_t>> written, read; // by kernel
  std::vector<std::vector<size_t>> kernels;       // by intermediate
  std::vector<int64_t> bytes;                     // by intermediate, at the upper bounds of their sizes
};

Uses uses_of(const search::Plan& plan) {
  const PlacedProgram placed = place(plan);
  Uses uses;
  uses.written.resize(plan.kernels.size());
  uses.read.resize(plan.kernels.size());
  std::vector<size_t> number(placed.slots.size());
  for (size_t s = 0; s < placed.slots.size(); ++s) {
    number[s] = uses.bytes.size();
    if (placed.slots[s].home == PlacedProgram::Home::Arena)
      uses.bytes.push_back(largest_bytes(*placed.slots[s].buffer));
  }
  uses.kernels.resize(uses.bytes.size());
  for (size_t k = 0; k < plan.kernels.size(); ++k)
    for (size_t p = 0; p < placed.launches[k].size(); ++p) {
      const size_t s = placed.launches[k][p];
      if (placed.slots[s].home != PlacedProgram::Home::Arena) continue;
      (plan.kernels[k]->kernel.params[p].written ? uses.written : uses.read)[k].push_back(number[s]);
      uses.kernels[number[s]].push_back(k);
    }
  return uses;
}

/// Returns the arena's bytes if the kernels run in this order.
int64_t peak_of(const Uses& uses, const std::vector<size_t>& order) {
  std::vector<int> when(order.size());
  for (size_t k = 0; k < order.size(); ++k) when[order[k]] = static_cast<int>(k);
  std::vector<lower::LiveRange> ranges;
  for (size_t i = 0; i < uses.bytes.size(); ++i) {
    lower::LiveRange range{static_cast<int>(order.size()), 0, uses.bytes[i]};
    for (const size_t k : uses.kernels[i]) {
      range.first = std::min(range.first, when[k]);
      range.last = std::max(range.last, when[k]);
    }
    ranges.push_back(range);
  }
  return lower::plan_memory(ranges, kPlaceAlignment).peak;
}

/// Returns an order in which each kernel leaves the least memory alive of all that may run next; the first of
/// several.
std::vector<size_t> greedy_order(const search::Plan& plan, const Uses& uses) {
  const size_t count = plan.kernels.size();
  std::unordered_map<int, size_t> owner; // by stage
  for (size_t k = 0; k < count; ++k)
    for (const int stage : plan.kernels[k]->stages) owner[stage] = k;
  std::vector<std::vector<size_t>> followers(count);
  std::vector<size_t> waits(count);
  for (size_t k = 0; k < count; ++k)
    for (const int stage : plan.kernels[k]->reads) {
      const auto source = owner.find(stage);
      if (source == owner.end() || source->second == k) continue;
      followers[source->second].push_back(k);
      ++waits[k];
    }
  std::vector<size_t> left(uses.bytes.size()); // by intermediate: kernels that have yet to touch it
  for (size_t i = 0; i < left.size(); ++i) left[i] = uses.kernels[i].size();
  const auto growth = [&](size_t k) {
    int64_t bytes = 0;
    for (const size_t i : uses.written[k]) bytes += uses.bytes[i];
    for (const size_t i : uses.read[k]) bytes -= left[i] == 1 ? uses.bytes[i] : 0;
    return bytes;
  };
  std::set<size_t> ready;
  for (size_t k = 0; k < count; ++k)
    if (waits[k] == 0) ready.insert(k);
  std::vector<size_t> order;
  while (!ready.empty()) {
    const size_t next = *std::min_element(ready.begin(), ready.end(),
                                          [&](size_t a, size_t b) { return growth(a) < growth(b); });
    ready.erase(next);
    order.push_back(next);
    for (const size_t i : uses.written[next]) --left[i];
    for (const size_t i : uses.read[next]) --left[i];
    for (const size_t follower : followers[next])
      if (--waits[follower] == 0) ready.insert(follower);
  }
  if (order.size() != count) throw InternalError("kernels wait for each other");
  return order;
}

} // namespace

search::Plan in_memory_order(search::Plan plan) {
  if (plan.kernels.size() < 3) return plan; // nothing to choose
  const Uses uses = uses_of(plan);
  std::vector<size_t> as_planned(plan.kernels.size());
  for (size_t k = 0; k < as_planned.size(); ++k) as_planned[k] = k;
  const std::vector<size_t> greedy = greedy_order(plan, uses);
  if (peak_of(uses, greedy) >= peak_of(uses, as_planned)) return plan;
  Kernels ordered;
  for (const size_t k : greedy) ordered.push_back(plan.kernels[k]);
  plan.kernels = std::move(ordered);
  return plan;
}

} // namespace lathe::pipeline
