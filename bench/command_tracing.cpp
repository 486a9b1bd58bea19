// lathe-bench tracing: what a trace costs a search by the model, in turns with the search without one.
#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <filesystem>
#include <limits>

#include "commands.hpp"
#include "compile/front/target.hpp"
#include "compile/trace/trace.hpp"
#include "lowered.hpp"
#include "search/beam/search.hpp"
#include "search/machine/profile.hpp"
#include "temporary_dir.hpp"

namespace lathe::bench {

namespace {

namespace fs = std::filesystem;

constexpr double kSeconds = 12; // of processor time for a workload, both ways together
constexpr int kLeast = 5;       // pairs of searches

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
  double without = 0, with = 0; // least processor seconds of a search: others on the machine only add
};

Cost cost_of(const Case& c, const Options& options) {
  RepeatedSearch search(c, options);
  const TemporaryDir folder;
  const std::string path = folder.path() + "/trace";
  search.seconds({}); // fills caches, and loads what is loaded once
  Cost cost{.without = std::numeric_limits<double>::infinity(),
            .with = std::numeric_limits<double>::infinity()};
  double spent = 0;
  for (int pair = 0; spent < kSeconds || pair < kLeast; ++pair) {
    // Either comes first as often as the other.
    const bool traced_first = pair % 2;
    const double first = search.seconds(traced_first ? path : "");
    const double second = search.seconds(traced_first ? "" : path);
    cost.without = std::min(cost.without, traced_first ? second : first);
    cost.with = std::min(cost.with, traced_first ? first : second);
    spent += first + second;
    cost.bytes = static_cast<int64_t>(fs::file_size(path));
    fs::remove(path);
  }
  cost.proposed = search.proposed();
  return cost;
}

} // namespace

int tracing_command(const Options& options) {
  Json json = Json::array();
  if (!options.json)
    fmt::print("{:<20} {:<16} {:>10} {:>12} {:>12} {:>8} {:>10}\n", "workload", "shape", "proposals",
               "a second", "traced", "cost", "trace");
  for (const Selection& chosen : select(options)) {
    const Case c = make_case(*chosen.workload, chosen.shape, parse_elements(options.dtype));
    const Cost cost = cost_of(c, options);
    const auto proposed = static_cast<double>(cost.proposed);
    const double percent = 100 * (cost.with / cost.without - 1);
    json.push_back({{"workload", c.workload},
                    {"shape", to_string(c.shape)},
                    {"proposed", cost.proposed},
                    {"per_second", proposed / cost.without},
                    {"traced_per_second", proposed / cost.with},
                    {"percent", percent},
                    {"trace_bytes", cost.bytes}});
    if (options.json) continue;
    fmt::print("{:<20} {:<16} {:>10} {:>12.0f} {:>12.0f} {:>6.1f} % {:>7} kB\n", c.workload,
               to_string(c.shape), cost.proposed, proposed / cost.without, proposed / cost.with, percent,
               cost.bytes / 1000);
  }
  if (options.json) fmt::print("{}\n", json.dump(2));
  return 0;
}

} // namespace lathe::bench
