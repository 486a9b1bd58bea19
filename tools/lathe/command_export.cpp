// lathe export: a model as files of source, to be built anywhere.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "lathe/export.hpp"
#include "lathe/onnx/tensor_names.hpp"
#include "loaded.hpp"
#include "values.hpp"

namespace lathe::tool {

namespace fs = std::filesystem;

int export_command(const Options& options) {
  const onnx::Model model = read_model(options);
  const onnx::ImportOptions import = import_options_for(model, options);
  ExportOptions how;
  how.target = options.target;
  how.name = options.name.empty() ? fs::path(options.model).stem().string() : options.name;
  how.arena = options.arena;
  how.compile = import.compile;
  how.order = onnx::tensor_names(model);
  const NamedTensors outputs = model.tensors(import, &how.compile.origins);
  const std::vector<ExportedFile> files = export_program(outputs, how);
  std::error_code error;
  fs::create_directories(options.output_dir, error);
  if (error) throw Error(ErrorKind::File, fmt::format("{}: {}", options.output_dir, error.message()));
  for (const ExportedFile& file : files) {
    write_file((fs::path(options.output_dir) / file.name).string(), file.bytes);
    fmt::print("{:>12}  {}\n", file.bytes.size(), file.name);
  }
  return 0;
}

} // namespace lathe::tool
