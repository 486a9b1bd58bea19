// The inner beam: schedules of one kernel by loop moves, ranked by the model and memoised by structural hash,
// so that equal kernels of a program are scheduled once.
#pragma once
#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "search/beam/search_trace.hpp"
#include "search/cost/cost.hpp"
#include "search/moves/plan.hpp"
#include "search/suggest/suggest.hpp"

namespace lathe::search {

struct Schedule {
  KernelPlanRef kernel;
  std::vector<Move> moves; // that make `kernel` from the kernel that was searched
  double seconds = 0;      // predicted by the model
};

/// The moves found for the kernel `from`, renamed for the kernel `to`, which has the same structure.
std::vector<Move> moves_for_equal(const lower::Program& program, const std::vector<Move>& moves,
                                  const KernelPlan& from, const KernelPlan& to);

class KernelSearch {
public:
  KernelSearch(CostModel& model, int beam, int rounds, bool thorough, bool joins,
               std::optional<MoveKind> without = {}, SearchTrace* trace = nullptr)
      : model_(model), beam_(beam), rounds_(rounds), thorough_(thorough), joins_(joins), without_(without),
        trace_(trace) {}

  /// From now on, a kernel that takes less than this is not worth a wide beam.
  void search_little_below(double seconds) { little_below_ = seconds; }

  /// Schedules of plan.kernels[k], best first, never empty: the kernel as it is counts as one.
  const std::vector<Schedule>& schedules(const Plan& plan, size_t k);
  /// Finds the schedules of all these kernels of plans, on all cores. They are the same with any number of
  /// cores.
  void prepare(const std::vector<std::pair<const Plan*, size_t>>& kernels);
  double best_seconds(const Plan& plan, size_t k) { return schedules(plan, k).front().seconds; }
  /// The schedules that one more legal proposal makes of `from`.
  std::vector<Schedule> neighbours(const Plan& plan, size_t k, const Schedule& from);
  int64_t proposed() const { return proposed_; }
  int64_t rejected() const { return rejected_; }
  /// Rate at which proposals are applied and their kernels ranked by the model.
  double scored_per_second() const {
    return scoring_seconds_ > 0 ? static_cast<double>(scored_) / scoring_seconds_ : 0;
  }
  /// The kernel whose search gave the schedules for this structural hash.
  const KernelPlanRef& original(uint64_t hash) const { return known_.at(hash).original; }

private:
  struct Known {
    KernelPlanRef original;
    std::vector<Schedule> schedules;
  };
  Plan alone(const Plan& plan, size_t k) const;
  std::optional<Schedule> with(Proposal proposal, const Schedule& from, const Plan& here);
  std::vector<Schedule> expand(const Plan& small, const Schedule& from);
  void tell(const KernelPlan& from);
  void parallelise(const Plan& small, std::vector<Schedule>& all);

  CostModel& model_;
  int beam_, rounds_;
  bool thorough_, joins_;
  double little_below_ = 0;
  std::optional<MoveKind> without_;
  SearchTrace* trace_;
  TriedList tried_; // since the last expansion, for the trace
  int64_t proposed_ = 0, rejected_ = 0, scored_ = 0;
  double scoring_seconds_ = 0;
  std::unordered_map<uint64_t, Known> known_;
};

} // namespace lathe::search
