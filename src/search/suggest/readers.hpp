// Who makes a stage and who reads it, as suggesters ask before they put one kernel under another.
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

/// The kernel of the stage alone, if the kernel in question is its only reader; else null.
KernelPlanRef sole_producer(const SuggestContext& context, int stage);

/// The accesses to a buffer, by its id.
std::vector<int> accesses_to(const Features& features, int buffer);
/// The loops around all of these, innermost first, but for those of straight-line code.
std::vector<int> loops_around(const Features& features, const std::vector<int>& accesses);

} // namespace lathe::search
