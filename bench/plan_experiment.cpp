#include "plan_experiment.hpp"

#include <fmt/format.h>

#include <cmath>

#include "compile/front/target.hpp"
#include "lowered.hpp"
#include "search/beam/form_search.hpp"
#include "search/cost/cost.hpp"
#include "timing.hpp"

namespace lathe::bench {

PlanExperiment::PlanExperiment(const Selection& chosen, const Options& options)
    : with_(compile_options(options)),
      case_(make_case(*chosen.workload, chosen.shape, parse_elements(options.dtype))),
      name_(fmt::format("{} {}", case_.workload, to_string(case_.shape))),
      want_(case_.reference(case_.inputs)), first_found_(find({})), first_(compiled(first_found_.moves)) {}

PlanExperiment::Found PlanExperiment::find(const search::SearchOptions& how) const {
  const auto program = lowered(case_.program);
  search::CostModel model(pipeline::target_for(with_, *program), search::machine_profile());
  const search::SearchResult found =
      search::search_forms(search::initial_plan(program), model, how, {with_.winograd, with_.strassen}, {});
  Found out{{}, found.predicted_seconds};
  for (const search::Move& move : found.plan.moves()) out.moves.push_back(search::to_string(move));
  return out;
}

std::unique_ptr<Compiled> PlanExperiment::compiled(const Moves& moves) const {
  CompileOptions with = with_;
  with.moves = moves;
  auto made = std::make_unique<Compiled>(case_, with);
  const double error = made->verify(want_);
  if (!(error <= made->tolerance()))
    throw Error(ErrorKind::Value,
                fmt::format("{}: wrong by {}, expected at most {}", name_, error, made->tolerance()));
  return made;
}

double PlanExperiment::slowdown(const search::SearchOptions& how) {
  const auto [moves, predicted] = find(how);
  if (moves == first_found_.moves) return 0;
  if (predicted > kFarSlower * first_found_.predicted) return kFarSlower;
  const auto [known, is_new] = known_.emplace(moves, 0.0);
  if (!is_new) return known->second;
  const std::unique_ptr<Compiled> other = compiled(moves);
  const auto run_first = [&] { first_->run(); };
  const auto run_other = [&] { other->run(); };
  const std::vector<double> times = median_seconds({run_first, run_other, run_first, run_other});
  return known->second = (times[1] + times[3]) / (times[0] + times[2]);
}

std::vector<PlanExperiment> plan_experiments(const Options& options) {
  std::vector<PlanExperiment> experiments;
  for (const Selection& chosen : select(options)) experiments.emplace_back(chosen, options);
  return experiments;
}

PlanEffect effect_on(std::vector<PlanExperiment>& experiments, const search::SearchOptions& how) {
  PlanEffect effect;
  double sum = 0;
  for (PlanExperiment& experiment : experiments) {
    const double slowdown = experiment.slowdown(how);
    if (slowdown == 0) continue;
    ++effect.changed;
    sum += std::log(slowdown);
    if (slowdown > effect.worst) effect.worst = slowdown, effect.worst_workload = experiment.name();
    if (slowdown < effect.best) effect.best = slowdown, effect.best_workload = experiment.name();
  }
  effect.mean = std::exp(sum / static_cast<double>(experiments.size()));
  return effect;
}

Json to_json(const PlanEffect& effect) {
  return {{"plans_changed", effect.changed},
          {"mean", effect.mean},
          {"worst", effect.worst},
          {"worst_workload", effect.worst_workload},
          {"best", effect.best},
          {"best_workload", effect.best_workload}};
}

std::string columns(const PlanEffect& effect) {
  const auto extreme = [](double slowdown, const std::string& workload) {
    return workload.empty() ? "" : fmt::format("{:.2f} {}", slowdown, workload);
  };
  return fmt::format("{} | {:.3f} | {} | {}", effect.changed, effect.mean,
                     extreme(effect.worst, effect.worst_workload),
                     extreme(effect.best, effect.best_workload));
}

} // namespace lathe::bench
