// lathe-bench constants: which numbers of the cost model matter. Each is halved and doubled; where a
// workload's untuned plan is another one then, its program is timed in turns with the first.
#include <fmt/format.h>

#include "plan_experiment.hpp"
#include "search/cost/constants.hpp"

namespace lathe::bench {

int constants_command(const Options& options) {
  std::vector<PlanExperiment> experiments = plan_experiments(options);
  Json json = Json::array();
  if (!options.json)
    fmt::print("{} workloads; times are multiples of those with the value in the table\n\n"
               "| constant | value | unit | | plans changed | mean time | worst | best | source |\n"
               "|---|---|---|---|---|---|---|---|---|\n",
               experiments.size());
  for (const search::CostConstantInfo& info : search::cost_constant_infos()) {
    double& value = search::cost_constants.*info.member;
    const double before = value;
    for (const double factor : {0.5, 2.0}) {
      value = factor * before;
      const PlanEffect effect = effect_on(experiments, {});
      value = before;
      json.push_back(
          {{"constant", info.name}, {"value", before}, {"factor", factor}, {"effect", to_json(effect)}});
      if (options.json) continue;
      fmt::print("| {} | {:g} | {} | x {} | {} | {} |\n", info.name, before, info.unit, factor,
                 columns(effect), info.source);
      std::fflush(stdout);
    }
  }
  if (options.json) fmt::print("{}\n", json.dump(2));
  return 0;
}

} // namespace lathe::bench
