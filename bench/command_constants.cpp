// lathe-bench constants: which numbers of the cost model matter. Each is halved and doubled; where a
// workload's untuned plan is another one then, its program is timed in turns with the first.
#include <fmt/format.h>

#include <cmath>
#include <map>

#include "commands.hpp"
#include "search/beam/search.hpp"
#include "search/cost/constants.hpp"
#include "timing.hpp"

namespace lathe::bench {
namespace {

/// A program that no search by measurement has seen.
struct Untuned {
  std::vector<std::string> moves;
  std::unique_ptr<Compiled> program;
};

class Experiment {
public:
  Experiment(const Case& c, const CompileOptions& with)
      : case_(c), with_(with), want_(c.reference(c.inputs)), first_(compiled()) {
    times_.emplace(first_.moves, 1.0);
  }

  /// Seconds of the plan that the constants of this moment give, as a multiple of the first one's. 0 if it is
  /// the first one.
  double slowdown() {
    Untuned other = compiled();
    if (other.moves == first_.moves) return 0;
    const auto [known, is_new] = times_.emplace(other.moves, 0.0);
    if (!is_new) return known->second;
    const auto run_first = [&] { first_.program->run(); };
    const auto run_other = [&] { other.program->run(); };
    const std::vector<double> times = median_seconds({run_first, run_other, run_first, run_other});
    return known->second = (times[1] + times[3]) / (times[0] + times[2]);
  }

private:
  Untuned compiled() {
    Untuned made{{}, std::make_unique<Compiled>(case_, with_)};
    made.moves = made.program->executable().moves();
    const double error = made.program->verify(want_);
    if (!(error <= made.program->tolerance()))
      throw Error(ErrorKind::Value, fmt::format("{}: wrong by {}", case_.workload, error));
    return made;
  }

  Case case_;
  CompileOptions with_;
  Reference want_;
  Untuned first_;
  std::map<std::vector<std::string>, double> times_; // by moves, as multiples
};

/// What one value of a constant does.
struct Effect {
  int changed = 0; // plans
  double sum = 0, worst = 1;
  std::string worst_workload;

  void add(const std::string& workload, double slowdown) {
    if (slowdown == 0) return;
    ++changed;
    sum += std::log(slowdown);
    if (slowdown <= worst) return;
    worst = slowdown;
    worst_workload = workload;
  }
  double mean(size_t of) const { return std::exp(sum / static_cast<double>(of)); }
};

} // namespace

int constants_command(const Options& options) {
  CompileOptions with = compile_options(options);
  with.use_database = false;
  // The search that untuned programs have, but anew each time: what they are given is remembered.
  TuneOptions by_the_model;
  by_the_model.beam = search::SearchOptions().beam;
  by_the_model.measure = false;
  with.tune = &by_the_model;
  std::vector<Experiment> experiments;
  std::vector<std::string> names;
  for (const Selection& chosen : select(options)) {
    const Case c = make_case(*chosen.workload, chosen.shape, parse_dtype(options.dtype));
    experiments.emplace_back(c, with);
    names.push_back(fmt::format("{} {}", c.workload, to_string(c.shape)));
  }
  Json json = Json::array();
  if (!options.json)
    fmt::print("{} workloads; slower is the geometric mean over all of them\n\n"
               "| constant | value | unit | | plans changed | slower | at most | source |\n"
               "|---|---|---|---|---|---|---|---|\n",
               names.size());
  for (const search::CostConstantInfo& info : search::cost_constant_infos()) {
    double& value = search::cost_constants.*info.member;
    const double before = value;
    for (const double factor : {0.5, 2.0}) {
      value = factor * before;
      Effect effect;
      for (size_t k = 0; k < experiments.size(); ++k) effect.add(names[k], experiments[k].slowdown());
      value = before;
      const double mean = effect.mean(experiments.size());
      json.push_back({{"constant", info.name},
                      {"value", before},
                      {"factor", factor},
                      {"plans_changed", effect.changed},
                      {"slower", mean},
                      {"at_most", effect.worst},
                      {"worst", effect.worst_workload}});
      if (options.json) continue;
      fmt::print("| {} | {:g} | {} | x {} | {} | {:.3f} | {:.2f} {} | {} |\n", info.name, before, info.unit,
                 factor, effect.changed, mean, effect.worst, effect.worst_workload, info.source);
      std::fflush(stdout);
    }
  }
  if (options.json) fmt::print("{}\n", json.dump(2));
  return 0;
}

} // namespace lathe::bench
