#include "search/suggest/readers.hpp"

#include "search/suggest/suggest.hpp"

#include <algorithm>

namespace lathe::search {

Readers readers_of(const Plan& plan, int stage) {
  Readers r;
  for (const KernelPlanRef& k : plan.kernels) {
    if (std::binary_search(k->stages.begin(), k->stages.end(), stage)) r.owner = k;
    if (std::binary_search(k->reads.begin(), k->reads.end(), stage)) r.kernels.push_back(k);
  }
  return r;
}

KernelPlanRef sole_producer(const SuggestContext& context, int stage) {
  if (context.plan.program->stages[static_cast<size_t>(stage)].is_output) return nullptr;
  const Readers readers = readers_of(context.plan, stage);
  return readers.owner && readers.owner->stages.size() == 1 && readers.kernels.size() == 1 ? readers.owner
                                                                                           : nullptr;
}

std::vector<int> accesses_to(const Features& features, int buffer) {
  std::vector<int> accesses;
  for (int a = 0; a < static_cast<int>(features.accesses.size()); ++a)
    if (features.buffers[features.accesses[a].buffer].buffer->id == buffer) accesses.push_back(a);
  return accesses;
}

std::vector<int> loops_around(const Features& features, const std::vector<int>& accesses) {
  std::vector<int> loops;
  if (accesses.empty()) return loops;
  for (int l = features.accesses[accesses[0]].loop; l >= 0; l = features.loops[l].parent) {
    const LoopInfo& loop = features.loops[l];
    const auto kind = loop.loop->kind;
    const bool around_all = std::all_of(accesses.begin(), accesses.end(),
                                        [&](int a) { return a >= loop.first_access && a < loop.end_access; });
    if (around_all && !is_straight(kind)) loops.push_back(l);
  }
  return loops;
}

} // namespace lathe::search
