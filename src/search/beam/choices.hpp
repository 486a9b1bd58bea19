// Measured schedules of each kernel of a plan, to choose among once more inside the whole program. A kernel
// timed alone finds the caches as its own last run left them; in the program, as other kernels left them. The
// second choice also times schedules in turns; the search timed them at different moments.
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
        schedules; // in order: the fastest, the first measured, the best of other families, the next fastest
  };
  Plan start;
  std::vector<Move> inlining;
  std::vector<OfKernel> kernels;

  /// The plan that gives each kernel k its schedule chosen[k]. Nothing if a move is not legal.
  std::optional<Plan> plan(const std::vector<size_t>& chosen, const Target& target) const;
  /// The positions of these kernels in plan.kernels, for a plan made of these choices.
  std::vector<size_t> places(const Plan& plan) const;
};

} // namespace lathe::search
