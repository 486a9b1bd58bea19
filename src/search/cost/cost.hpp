// The cost model: seconds of a kernel and of a plan, by term, for one machine.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "search/machine/profile.hpp"
#include "search/machine/target.hpp"
#include "search/moves/plan.hpp"

namespace lathe::search {

/// A term of the cost: seconds and what it is.
struct CostTerm {
  std::string name;
  double seconds;
};
struct Cost {
  double seconds = 0;
  std::vector<CostTerm> terms;
};
Cost cost(const KernelPlan& kernel, const Target& target, const MachineProfile& machine);
/// No schedule of the kernel takes less: its arithmetic at the machine's peak, its parameters moved once.
double lower_bound(const ast::Kernel& kernel, const Target& target, const MachineProfile& machine);

/// Sum over kernels, memoised by structural hash.
class CostModel {
public:
  CostModel(Target target, MachineProfile machine);
  ~CostModel();
  double seconds(const KernelPlanRef& kernel);
  /// By term. A kernel whose seconds were asked for costs no more than its terms' names.
  Cost cost(const KernelPlanRef& kernel);
  double seconds(const Plan& plan);
  const Target& target() const;
  const MachineProfile& machine() const;

private:
  struct State;
  std::unique_ptr<State> state_;
};

/// How many steps of the recurrence predictions count with.
double estimated_steps(const lower::Recurrence& recurrence);

} // namespace lathe::search
