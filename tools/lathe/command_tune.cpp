// lathe tune: one search over the whole model.
#include <fmt/format.h>

#include "cli/duration.hpp"
#include "cli/interrupt.hpp"
#include "cli/progress.hpp"
#include "loaded.hpp"

namespace lathe::tool {

namespace {

/// Whether the model names sizes that the options leave open.
bool names_sizes(const onnx::Model& model, const onnx::ImportOptions& options) {
  for (const onnx::Port& port : model.inputs())
    for (const Expr size : port.shape.value_or(Shape{}))
      if (size.is_var() && !options.sizes.count(size.name())) return true;
  return false;
}

} // namespace

int tune_command(const Options& options) {
  const onnx::Model model = read_model(options);
  cli::Progress progress("tune " + options.model);
  TuneOptions tune;
  tune.budget_seconds = cli::parse_seconds("--budget", options.budget);
  tune.seed = options.seed;
  const cli::Interruptible interruptible;
  tune.stop = interruptible.token();
  tune.progress = [&](const TuneProgress& state) { progress.show(state); };
  onnx::ImportOptions import = import_options_for(model, options);
  import.compile.tune = tune;
  const onnx::Program program = model.compile(import);
  if (import.versions > 0 && names_sizes(model, import))
    fmt::print("tuned for all sizes, which runs with changing sizes take; --size or --input tunes the "
               "version for theirs\n");
  // Where shapes depend on what the model is fed, a run finds the kernels.
  if (program.segments().empty() && (!options.inputs.empty() || options.random))
    (void)program(read_inputs(program.inputs(), options));
  const std::vector<Executable> segments = program.segments();
  if (segments.empty())
    throw Error(ErrorKind::Value,
                options.model +
                    ": its shapes depend on what it is fed; give that with --input, or --random");
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
