// lathe tune: one search over the whole model.
#include <fmt/format.h>

#include "cli/duration.hpp"
#include "cli/interrupt.hpp"
#include "cli/progress.hpp"
#include "commands.hpp"

namespace lathe::tool {

int tune_command(const Options& options) {
  const onnx::Model model = onnx::load(options.model);
  cli::Progress progress("tune " + options.model);
  TuneOptions tune;
  tune.budget_seconds = cli::parse_seconds("--budget", options.budget);
  tune.seed = options.seed;
  const cli::Interruptible interruptible;
  tune.stop = interruptible.token();
  tune.progress = [&](const TuneProgress& state) { progress.show(state); };
  onnx::ImportOptions import = import_options(options);
  import.compile.tune = tune;
  const onnx::Program program = model.compile(import);
  const std::vector<Executable> segments = program.segments();
  if (segments.empty())
    throw Error(ErrorKind::Value,
                options.model + ": its shapes depend on what it is fed; give its sizes with --size");
  for (const Executable& segment : segments)
    fmt::print("{} kernels, {}, predicted {}\n", segment.kernel_count(),
               segment.tuned() ? "tuned" : "not tuned", cli::duration(segment.predicted_seconds()));
  // The next program will not know them.
  if (!progress.last().not_stored.empty())
    for (const Executable& segment : segments)
      for (const std::string& move : segment.moves()) fmt::print("{}\n", move);
  if (const TuneProgress& last = progress.last(); segments.size() == 1 && last.untuned_seconds > 0)
    fmt::print("whole program: {}, untuned {}\n", cli::duration(last.tuned_seconds),
               cli::duration(last.untuned_seconds));
  return 0;
}

} // namespace lathe::tool
