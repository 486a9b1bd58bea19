// The kernels that compute and read a stage, for suggesters that put one kernel under another.
#pragma once
#include <vector>

#include "search/cost/features.hpp"
#include "search/moves/plan.hpp"
#include "search/suggest/suggest.hpp"

namespace lathe::search {

struct Readers {
  KernelPlanRef owner; // null: the stage is inlined
  std::vector<KernelPlanRef> kernels;
};
Readers readers_of(const Plan& plan, int stage);

/// The kernel that computes only this stage, if context.kernel alone reads it; else null.
KernelPlanRef sole_producer(const SuggestContext& context, int stage);

/// The accesses to a buffer, by its id.
std::vector<int> accesses_to(const Features& features, int buffer);
/// The loops around all these accesses, innermost first, without vector and unrolled loops.
std::vector<int> loops_around(const Features& features, const std::vector<int>& accesses);

} // namespace lathe::search
