#include "baseline.hpp"

#include <algorithm>

#include "compile/front/target.hpp"
#include "compile/measure/measure.hpp"
#include "lowered.hpp"
#include "search/beam/form_search.hpp"
#include "search/cost/cost.hpp"
#include "search/cost/features.hpp"
#include "search/machine/profile.hpp"

namespace lathe::bench {

namespace {

using search::MoveKind;
using search::Plan;

double elements_of(const lower::Stage& stage) {
  double elements = 1;
  for (const Expr size : stage.buffer->shape) elements *= search::estimate(size);
  return elements;
}

/// Whether an elementwise stage, alone in its kernel, is all that reads this reduction, element by element.
bool has_epilogue(const Plan& plan, const lower::Stage& sum) {
  const search::KernelPlan* reader = nullptr;
  for (const search::KernelPlanRef& kernel : plan.kernels) {
    if (!std::binary_search(kernel->reads.begin(), kernel->reads.end(), sum.id)) continue;
    if (reader) return false;
    reader = kernel.get();
  }
  if (!reader || reader->stages.size() != 1) return false;
  const lower::Stage& epilogue = plan.program->stages[static_cast<size_t>(reader->stages[0])];
  return !epilogue.is_reduction && !epilogue.is_scatter && elements_of(epilogue) == elements_of(sum);
}

bool follows_rules(const Plan& plan, const std::vector<search::Move>& moves) {
  return std::all_of(moves.begin(), moves.end(), [&](const search::Move& move) {
    const MoveKind others[] = {MoveKind::Merge, MoveKind::StoreWith, MoveKind::FuseLoops};
    if (std::find(std::begin(others), std::end(others), move.kind) != std::end(others)) return false;
    if (move.kind != MoveKind::FuseAt) return true;
    const lower::Stage& stage = plan.program->stages[static_cast<size_t>(stage_of(move))];
    return stage.is_reduction && has_epilogue(plan, stage);
  });
}

} // namespace

Executable compiled_by(Baseline baseline, const NamedTensors& outputs, CompileOptions with,
                       const TuneOptions& tune) {
  const auto program = lowered(outputs);
  search::CostModel model(pipeline::target_for(with, *program), search::machine_profile());
  search::SearchOptions how;
  how.beam = tune.beam;
  how.seed = tune.seed;
  how.graph_then_loops = baseline == Baseline::LeastTraffic;
  if (baseline == Baseline::FixedRules) how.allowed = follows_rules;
  search::MakeMeasure measuring;
  if (tune.measure) {
    how.budget_seconds = tune.budget_seconds;
    measuring = [&](const std::shared_ptr<const lower::Program>& form, search::SearchOptions& to) {
      pipeline::Measuring made = pipeline::make_measure(form, with);
      to.measure = std::move(made.measure);
      to.prepare = std::move(made.prepare);
    };
  }
  // Forms of sums, such as Winograd's, are no matter of fusion: each baseline has them.
  const search::Plan found = search::search_forms(search::initial_plan(program), model, how,
                                                  {with.winograd, with.strassen}, measuring)
                                 .plan;
  for (const search::Move& move : found.moves()) with.moves.push_back(search::to_string(move));
  return compile(outputs, with);
}

} // namespace lathe::bench
