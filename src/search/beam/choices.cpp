#include "search/beam/choices.hpp"

#include <algorithm>

#include "lathe/error.hpp"

namespace lathe::search {

std::optional<Plan> Choices::plan(const std::vector<size_t>& chosen, const Target& target) const {
  // First the inlining, then each kernel's moves, which name only what belongs to that kernel.
  std::vector<Move> moves = inlining;
  for (size_t k = 0; k < kernels.size(); ++k) {
    const std::vector<Move>& schedule = kernels[k].schedules.at(chosen.at(k));
    moves.insert(moves.end(), schedule.begin(), schedule.end());
  }
  return apply(start, moves, target).plan;
}

std::vector<size_t> Choices::places(const Plan& plan) const {
  std::vector<size_t> places;
  for (const OfKernel& kernel : kernels) {
    const auto at = std::find_if(plan.kernels.begin(), plan.kernels.end(),
                                 [&](const KernelPlanRef& k) { return k->stages == kernel.stages; });
    if (at == plan.kernels.end()) throw InternalError("choices: a plan of other kernels");
    places.push_back(static_cast<size_t>(at - plan.kernels.begin()));
  }
  return places;
}

} // namespace lathe::search
