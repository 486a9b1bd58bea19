// lathe-bench tune: search, or replay of a log.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "cli/interrupt.hpp"
#include "cli/progress.hpp"
#include "commands.hpp"
#include "lowered.hpp"
#include "search/store/database.hpp"
#include "search/store/log.hpp"
#include "timing.hpp"

namespace lathe::bench {

std::string schedule_text(const Executable& executable) {
  std::string text;
  for (const Kernel& kernel : executable.kernels()) {
    text += fmt::format("{}: predicted {}\n", kernel.name(), duration(kernel.predicted_seconds()));
    for (const std::string& move : kernel.moves()) text += "  " + move + "\n";
  }
  return text;
}

namespace {
/// "812 not legal, 1 wrong result".
std::string reasons_text(const std::map<std::string, int64_t>& reasons) {
  std::string text;
  for (const auto& [reason, count] : reasons)
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", count, reason);
  return text.empty() ? "none" : text;
}

Executable search_case(const Case& c, CompileOptions compile_with, const Options& options, Json& extra) {
  cli::Progress progress("tune " + c.workload + " " + to_string(c.shape));
  TuneOptions tune;
  tune.budget_seconds = parse_seconds("--budget", options.budget);
  tune.beam = options.beam;
  tune.seed = options.seed;
  tune.measure = !options.no_measure;
  tune.log = options.log;
  const cli::Interruptible interruptible;
  tune.stop = interruptible.token();
  tune.progress = [&](const TuneProgress& state) { progress.show(state); };
  Executable executable = lathe::tune(c.program, tune, compile_with);
  extra["search_seconds"] = progress.last().elapsed_seconds;
  extra["rounds"] = progress.last().round;
  extra["proposed"] = progress.last().proposed;
  extra["measured"] = progress.last().measured;
  extra["recalled"] = progress.last().recalled;
  extra["rejected"] = progress.last().rejected;
  extra["rejected_by_reason"] = progress.last().reasons;
  extra["scored_per_second"] = progress.last().scored_per_second;
  extra["measured_per_second"] =
      static_cast<double>(progress.last().measured) / std::max(progress.last().elapsed_seconds, 1e-9);
  return executable;
}

/// The program with the best plan that the log holds for it.
Executable replay_case(const Case& c, CompileOptions with, const std::string& log) {
  const search::LogContents contents = search::read_log(log);
  const auto best = search::best_plan(contents.records, search::program_hash(*lowered(c.program)));
  if (!best && !contents.damaged.empty()) throw contents.damaged.front().error;
  if (!best)
    throw Error(ErrorKind::File, log + ": has no plan for " + c.workload + " " + to_string(c.shape) +
                                     ", expected a log that `lathe-bench tune --log` wrote for it");
  for (const search::Move& move : best->moves) with.moves.push_back(search::to_string(move));
  return compile(c.program, with);
}
} // namespace

Tuned tune_case(const Case& c, const Reference& want, const Options& options) {
  CompileOptions with = compile_options(options);
  CompileOptions without = with;
  without.use_database = false;
  with.trace = options.trace;
  Compiled untuned(c, without);
  Json extra = Json::object();
  Compiled tuned(c, options.replay.empty() ? search_case(c, with, options, extra)
                                           : replay_case(c, with, options.replay));

  Row row = start_row(c, with, tuned.executable());
  row.tuned = true; // by a replay too
  row.max_error = tuned.verify(want);
  row.verified = row.max_error <= tuned.tolerance() && untuned.verify(want) <= untuned.tolerance();
  std::vector<double> times = median_seconds({[&] { tuned.run(); }, [&] { untuned.run(); }});
  row.seconds = times[0];
  row.extra = {{"predicted_ms", tuned.executable().predicted_seconds() * 1e3},
               {"untuned_ms", times[1] * 1e3},
               {"speedup", times[1] / times[0]},
               {"moves", tuned.executable().moves()}};
  row.extra.update(extra);
  return {row, times[1], tuned.executable()};
}

int tune_command(const Options& options) {
  std::vector<Row> rows;
  for (const Selection& chosen : select(options)) {
    Case c = make_case(*chosen.workload, chosen.shape, parse_elements(options.dtype));
    Tuned tuned = tune_case(c, c.reference(c.inputs), options);
    if (!options.json) {
      fmt::print("{}predicted {}, measured {}, untuned {}: {:.2f}x\n", schedule_text(tuned.executable),
                 duration(tuned.executable.predicted_seconds()), duration(tuned.row.seconds),
                 duration(tuned.untuned_seconds), tuned.untuned_seconds / tuned.row.seconds);
      if (const Json& e = tuned.row.extra; e.contains("measured_per_second"))
        fmt::print(
            "{} measured ({:.0f} a second), {} known from before, {:.0f} scored by the model a second\n"
            "rejected: {}\n",
            e["measured"].get<int64_t>(), e["measured_per_second"].get<double>(),
            e["recalled"].get<int64_t>(), e["scored_per_second"].get<double>(),
            reasons_text(e["rejected_by_reason"].get<std::map<std::string, int64_t>>()));
    }
    rows.push_back(std::move(tuned.row));
  }
  return report(rows, options);
}

} // namespace lathe::bench
