// lathe-bench tracing: what a trace costs a search by the model, in turns with the search without one; and
// what the places of a page's graph cost.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <ctime>
#include <filesystem>
#include <limits>
#include <random>

#include "commands.hpp"
#include "compile/front/target.hpp"
#include "compile/trace/trace.hpp"
#include "compile/view/layout.hpp"
#include "lowered.hpp"
#include "search/beam/search.hpp"
#include "search/machine/profile.hpp"
#include "temporary_dir.hpp"

namespace lathe::bench {

namespace {

namespace fs = std::filesystem;

constexpr int kLeast = 5; // rounds of searches

/// Of all threads of this process: other programs on the machine don't count.
double processor_seconds() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

/// A search of one program, as often as asked.
class RepeatedSearch {
public:
  RepeatedSearch(const Case& c, const Options& options)
      : compile_(compile_options(options)), beam_(options.beam), program_(lowered(c.program)),
        target_(pipeline::target_for(compile_, *program_)), machine_(search::machine_profile()) {}

  /// Processor seconds. `trace`: a file, or empty.
  double seconds(const std::string& trace) {
    const InExprScope search_only(new_expr_scope());
    const search::Plan start = search::initial_plan(program_);
    search::CostModel model(target_, machine_);
    CompileOptions with = compile_;
    with.trace = trace;
    const double begin = processor_seconds();
    const auto traced = tracing::Trace::open(with);
    search::SearchOptions how;
    how.beam = beam_;
    how.trace = traced.get();
    proposed_ = search::search(start, model, how).proposed;
    if (traced) traced->flush();
    return processor_seconds() - begin;
  }
  int64_t proposed() const { return proposed_; }

private:
  CompileOptions compile_;
  int beam_;
  std::shared_ptr<const lower::Program> program_;
  search::Target target_;
  search::MachineProfile machine_;
  int64_t proposed_ = 0;
};

struct Cost {
  int64_t proposed = 0, bytes = 0;
  /// Least processor seconds of a search: without a trace, again without, and with one. Others on the machine
  /// only add. The first two differ by what the measurement cannot tell apart.
  std::array<double, 3> least;
};

Cost cost_of(const Case& c, const Options& options) {
  const double budget = parse_seconds("--budget", options.tracing_budget);
  RepeatedSearch search(c, options);
  const TemporaryDir folder;
  const std::string path = folder.path() + "/trace";
  search.seconds({}); // fills caches, and loads what is loaded once
  Cost cost;
  cost.least.fill(std::numeric_limits<double>::infinity());
  double spent = 0;
  for (size_t round = 0; spent < budget || round < kLeast; ++round)
    for (size_t turn = 0; turn < 3; ++turn) {
      const size_t which = (round + turn) % 3; // each comes first as often as the others
      const double seconds = search.seconds(which == 2 ? path : "");
      cost.least[which] = std::min(cost.least[which], seconds);
      spent += seconds;
      if (which == 2) cost.bytes = static_cast<int64_t>(fs::file_size(path)), fs::remove(path);
    }
  cost.proposed = search.proposed();
  return cost;
}

/// Least processor seconds of the layout of a graph of so many nodes. Each reads the one before it and,
/// mostly, one a few nodes earlier.
double layout_seconds(size_t nodes) {
  std::mt19937_64 random(1);
  std::exponential_distribution<double> distance(0.08);
  view::Layered graph;
  for (size_t n = 0; n < nodes; ++n) {
    std::vector<int>& sources = graph.sources.emplace_back();
    graph.widths.push_back(120);
    if (n == 0) continue;
    const auto last = static_cast<int>(n) - 1;
    sources.push_back(last);
    if (const int other = std::max(0, last - static_cast<int>(distance(random))); other != last)
      sources.push_back(other);
  }
  double least = std::numeric_limits<double>::infinity();
  for (int k = 0; k < kLeast; ++k) {
    const double begin = processor_seconds();
    view::lay_out(graph, 14);
    least = std::min(least, processor_seconds() - begin);
  }
  return least;
}

} // namespace

int tracing_command(const Options& options) {
  Json json = Json::array();
  if (!options.json)
    fmt::print("{:<20} {:<16} {:>10} {:>12} {:>12} {:>8} {:>8} {:>10}\n", "workload", "shape", "proposals",
               "a second", "traced", "cost", "noise", "trace");
  for (const Selection& chosen : select(options)) {
    const Case c = make_case(*chosen.workload, chosen.shape, parse_elements(options.dtype));
    const Cost cost = cost_of(c, options);
    const auto proposed = static_cast<double>(cost.proposed);
    const auto& [without, again, with] = cost.least;
    const double percent = 100 * (with / std::min(without, again) - 1);
    const double noise = 100 * (std::max(without, again) / std::min(without, again) - 1);
    json.push_back({{"workload", c.workload},
                    {"shape", to_string(c.shape)},
                    {"proposed", cost.proposed},
                    {"per_second", proposed / std::min(without, again)},
                    {"traced_per_second", proposed / with},
                    {"percent", percent},
                    {"noise_percent", noise},
                    {"trace_bytes", cost.bytes}});
    if (options.json) continue;
    fmt::print("{:<20} {:<16} {:>10} {:>12.0f} {:>12.0f} {:>6.1f} % {:>6.1f} % {:>7} kB\n", c.workload,
               to_string(c.shape), cost.proposed, proposed / std::min(without, again), proposed / with,
               percent, noise, cost.bytes / 1000);
  }
  for (const size_t nodes : {1'000, 5'000, 20'000}) {
    const double seconds = layout_seconds(nodes);
    json.push_back({{"layout_nodes", nodes}, {"ms", seconds * 1e3}});
    if (!options.json) fmt::print("layout of a page's graph of {:>6} nodes: {}\n", nodes, duration(seconds));
  }
  if (options.json) fmt::print("{}\n", json.dump(2));
  return 0;
}

} // namespace lathe::bench
