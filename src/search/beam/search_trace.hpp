// What a search tells whoever listens: the plans and kernels that it made, and those that it refused.
//
// States are known by structural hash: equal kernels are one state, as they are for the search. A listener
// gets references that live for the call alone. Calls come from the thread that searches.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "search/beam/measurement.hpp"
#include "search/cost/cost.hpp"
#include "search/moves/plan.hpp"

namespace lathe::search {

/// What became of a proposal.
struct Tried {
  std::vector<Move> moves;
  KernelPlanRef kernel;     // of a kernel's search: the kernel made; null if the moves are not legal
  std::optional<Plan> plan; // of the search over partitions: the plan made
  double seconds = 0;       // predicted
  std::string reason;       // why it goes no further; empty: it competes
};

class SearchTrace {
public:
  virtual ~SearchTrace() = default;
  /// A search begins at this plan. Searches nest: those of regions and of other forms lie inside.
  virtual void begins(const Plan& start, const CostModel& model, bool measures) = 0;
  virtual void ends(const Plan& found, double predicted_seconds, double measured_seconds) = 0;
  /// A plan where the search over partitions starts.
  virtual void starts_at(const Plan& plan, double seconds) = 0;
  virtual void plans_from(const Plan& from, const std::vector<Tried>& tried) = 0;
  /// Those that the beam keeps for its next round.
  virtual void keeps_plans(const std::vector<const Plan*>& plans) = 0;
  /// plan.kernels[k] is about to be scheduled.
  virtual void schedules(const Plan& plan, size_t k, double seconds) = 0;
  virtual void kernels_from(const KernelPlan& from, const std::vector<Tried>& tried) = 0;
  virtual void keeps_kernels(const std::vector<KernelPlanRef>& kernels) = 0;
  virtual void measured(const KernelPlan& kernel, double predicted_seconds, const Measurement& result) = 0;
};

} // namespace lathe::search
