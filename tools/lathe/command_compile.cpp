// lathe compile: a model as a file that loads without search and, on this machine, without compiling.
#include <filesystem>

#include <fmt/format.h>

#include "cli/duration.hpp"
#include "lathe/program_file.hpp"
#include "loaded.hpp"

namespace lathe::tool {

int compile_command(const Options& options) {
  const onnx::ImportOptions import = import_options(options);
  const Stopwatch compiling;
  const Executable program = compile(onnx::load(options.model).tensors(import), import.compile);
  save(program, options.output);
  fmt::print("{}: {} kernels, {}, {:.1f} MB, in {}\n", options.output, program.kernel_count(),
             program.tuned() ? "tuned" : "not tuned",
             static_cast<double>(std::filesystem::file_size(options.output)) / 1e6,
             cli::duration(compiling.seconds()));
  return 0;
}

} // namespace lathe::tool
