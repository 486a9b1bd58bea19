// lathe compile: a model as a file that loads without search and, on this machine, without compiling.
#include <algorithm>
#include <filesystem>

#include <fmt/format.h>

#include "cli/duration.hpp"
#include "loaded.hpp"

namespace lathe::tool {

int compile_command(const Options& options) {
  const Stopwatch compiling;
  const onnx::Program program = read_model(options).compile(import_options(options));
  // What a value decides is compiled for what was seen: these inputs say what that is.
  const bool fed = !options.inputs.empty() || options.random;
  if (fed) program(read_inputs(program.inputs(), options));
  save(program, options.output);
  const std::vector<Executable> segments = program.segments();
  size_t kernels = 0;
  for (const Executable& segment : segments) kernels += segment.kernel_count();
  const bool tuned =
      std::any_of(segments.begin(), segments.end(), [](const Executable& e) { return e.tuned(); });
  std::error_code is_stream; // a pipe has no size
  const double bytes = static_cast<double>(std::filesystem::file_size(options.output, is_stream));
  fmt::print("{}: {} kernels, {}, {}in {}\n", options.output, kernels, tuned ? "tuned" : "not tuned",
             is_stream ? "" : fmt::format("{:.1f} MB, ", bytes / 1e6), cli::duration(compiling.seconds()));
  if (segments.empty() && !fed)
    fmt::print("what it is fed decides on its shapes: with --input or --random the file holds the kernels "
               "for that too\n");
  return 0;
}

} // namespace lathe::tool
