// What a search tells whoever listens: the plans and kernels that it made, and those that it refused.
//
// States are known by structural hash: equal kernels are one state, as they are for the search. A listener
// gets references that live for the call alone. Calls come from the thread that searches. Searches that run
// beside each other have a listener each, a piece of the whole one; TracedPieces joins them in a fixed order,
// so that a trace says the same with any number of threads.
#pragma once
#include <memory>
#include <vector>

#include "search/beam/measurement.hpp"
#include "search/beam/tried.hpp"
#include "search/cost/cost.hpp"
#include "search/moves/plan.hpp"

namespace lathe::search {

class SearchTrace {
public:
  virtual ~SearchTrace() = default;
  /// A search begins at this plan. Searches nest: those of regions and of other forms lie inside. The model
  /// lives until the search ends.
  virtual void begins(const Plan& start, CostModel& model, bool measures) = 0;
  virtual void ends(const Plan& found, double predicted_seconds, double measured_seconds) = 0;
  /// A plan where the search over partitions starts.
  virtual void starts_at(const Plan& plan, double seconds) = 0;
  virtual void plans_from(const Plan& from, const TriedList& tried) = 0;
  /// Those that the beam keeps for its next round.
  virtual void keeps_plans(const std::vector<const Plan*>& plans) = 0;
  /// plan.kernels[k] is about to be scheduled.
  virtual void schedules(const Plan& plan, size_t k, double seconds) = 0;
  virtual void kernels_from(const KernelPlan& from, const TriedList& tried) = 0;
  virtual void keeps_kernels(const std::vector<KernelPlanRef>& kernels) = 0;
  virtual void measured(const KernelPlan& kernel, double predicted_seconds, const Measurement& result) = 0;

  /// A listener of a part of the search, in whose thread it is told. This one is told nothing until then.
  virtual std::unique_ptr<SearchTrace> piece() = 0;
  /// What the piece was told comes next.
  virtual void join(SearchTrace& piece) = 0;
};

/// The listeners of searches that run beside each other; null ones if nobody listens. A search alone is told
/// to the whole.
class TracedPieces {
public:
  TracedPieces(SearchTrace* whole, size_t count) : whole_(whole) {
    for (size_t k = 0; whole && count > 1 && k < count; ++k) pieces_.push_back(whole->piece());
  }
  SearchTrace* operator[](size_t k) const { return pieces_.empty() ? whole_ : pieces_[k].get(); }
  /// Once all searches have ended.
  void join() {
    for (const std::unique_ptr<SearchTrace>& piece : pieces_) whole_->join(*piece);
  }

private:
  SearchTrace* whole_;
  std::vector<std::unique_ptr<SearchTrace>> pieces_;
};

} // namespace lathe::search
