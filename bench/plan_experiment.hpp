// A workload whose untuned plan is found again under other circumstances, and timed in turns with the first.
#pragma once
#include <map>
#include <memory>

#include "commands.hpp"
#include "search/beam/search.hpp"

namespace lathe::bench {

class PlanExperiment {
public:
  static constexpr double kFarSlower = 10; // ratio of predicted times
  PlanExperiment(const Selection& chosen, const Options& options);

  const std::string& name() const { return name_; }
  /// Seconds of the plan that the search finds now, as a multiple of the first one's. 0 if it is the first
  /// one. A plan that the model calls more than kFarSlower times slower is not run: kFarSlower.
  double slowdown(const search::SearchOptions& how);

private:
  using Moves = std::vector<std::string>;
  struct Found {
    Moves moves;
    double predicted; // seconds
  };
  Found find(const search::SearchOptions& how) const;
  std::unique_ptr<Compiled> compiled(const Moves& moves) const;

  CompileOptions with_;
  Case case_;
  std::string name_;
  Reference want_;
  Found first_found_;
  std::unique_ptr<Compiled> first_;
  std::map<Moves, double> known_; // slowdowns that were timed
};

std::vector<PlanExperiment> plan_experiments(const Options& options);

/// What one circumstance does to many workloads.
struct PlanEffect {
  int changed = 0;
  double mean = 1, worst = 1, best = 1; // of slowdowns
  std::string worst_workload, best_workload;
};
PlanEffect effect_on(std::vector<PlanExperiment>& experiments, const search::SearchOptions& how);
Json to_json(const PlanEffect& effect);
/// "3 | 1.012 | 1.08 softmax 4096x1024 | 0.97 sum 16777216": columns of a table.
std::string columns(const PlanEffect& effect);

} // namespace lathe::bench
