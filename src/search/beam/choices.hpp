// Measured schedules of the kernels of one plan, to choose among once more: by itself a kernel finds in the
// caches what its own last run has left there, in the program what other kernels have; and what was measured
// at different moments is compared in turns.
#pragma once
#include <optional>
#include <vector>

#include "search/machine/target.hpp"
#include "search/moves/plan.hpp"

namespace lathe::search {

struct Choices {
  struct OfKernel {
    std::vector<int> stages;
    std::vector<std::vector<Move>>
        schedules; // the fastest, the first that was measured, the best of other kinds, the next fastest
  };
  Plan start;
  std::vector<Move> inlining;
  std::vector<OfKernel> kernels;

  /// The plan with schedule chosen[k] of each kernel k. Nothing if it can't be put together.
  std::optional<Plan> plan(const std::vector<size_t>& chosen, const Target& target) const;
  /// Where in `plan`, made of these, each kernel is.
  std::vector<size_t> places(const Plan& plan) const;
};

} // namespace lathe::search
