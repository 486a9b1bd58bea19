// The kernel that candidates are checked against: the unscheduled one, with loops reordered for speed.
#include <algorithm>

#include "search/beam/measurement.hpp"
#include "search/moves/draft.hpp"
#include "search/suggest/suggest.hpp"

namespace lathe::search {

KernelPlanRef reference_kernel(const lower::Program& program, const KernelPlan& scheduled,
                               const Target& target) {
  const KernelPlanRef plain = unscheduled(program, scheduled);
  // The suggester takes a plan. This one holds only this kernel and borrows the program, which outlives it.
  Plan plan;
  plan.program = std::shared_ptr<const lower::Program>(std::shared_ptr<const void>(), &program);
  plan.kernels.push_back(plain);
  Features features;
  read_features(plain->kernel, target, features);
  const MachineProfile machine;
  Draft draft = draft_of(program, *plain);
  for (const Proposal& p : suggest_reorder({plan, *plain, features, target, machine, false})) {
    if (p.moves.size() != 1) continue;
    Draft next = draft;
    if (apply(next, p.moves[0], target).empty()) draft = std::move(next);
  }
  return finish(std::move(draft), [&](int stage) {
    const auto& params = plain->kernel.params;
    return std::any_of(params.begin(), params.end(), [&](const ast::Param& p) {
      return p.written && p.buffer->id == program.stages[stage].buffer->id;
    });
  });
}

} // namespace lathe::search
