// lathe-bench moves: what each move of the search brings. Each is left out; where a workload's untuned plan
// is another one then, its program is timed in turns with the first.
#include <fmt/format.h>

#include "plan_experiment.hpp"
#include "search/moves/table.hpp"

namespace lathe::bench {

int moves_command(const Options& options) {
  std::vector<PlanExperiment> experiments = plan_experiments(options);
  Json json = Json::array();
  if (!options.json)
    fmt::print("{} workloads; times without the move are multiples of those with it\n\n"
               "| without | plans changed | mean time | worst | best |\n|---|---|---|---|---|\n",
               experiments.size());
  for (const search::MoveRow& row : search::move_table()) {
    if (search::rewrites_graph(row.kind)) continue; // these are chosen by form, not proposed
    search::SearchOptions how;
    how.without = row.kind;
    const PlanEffect effect = effect_on(experiments, how);
    json.push_back({{"without", row.name}, {"effect", to_json(effect)}});
    if (options.json) continue;
    fmt::print("| {} | {} |\n", row.name, columns(effect));
    std::fflush(stdout);
  }
  if (options.json) fmt::print("{}\n", json.dump(2));
  return 0;
}

} // namespace lathe::bench
