#include "loaded.hpp"

#include <fmt/format.h>

#include "cli/duration.hpp"
#include "lathe/program_file.hpp"

namespace lathe::tool {
namespace {

using cli::duration;

/// By name: a compiled program has no other order.
std::vector<onnx::Port> ports_of(const std::vector<KernelParam>& params) {
  std::vector<onnx::Port> ports;
  for (const KernelParam& param : params)
    ports.push_back({.name = param.name,
                     .dtype = param.dtype,
                     .shape = param.shape,
                     .text = to_string(param.dtype) + to_string(param.shape)});
  return ports;
}

Loaded load_compiled(const Options& options) {
  if (!options.device.empty())
    throw Error(ErrorKind::Value, options.model + ": compiled for its device already, expected no --device");
  const Stopwatch loading;
  const Executable program = load_executable(options.model);
  fmt::print("load {}\n", duration(loading.seconds()));
  const auto run = [program](const onnx::NamedValues& inputs) {
    NamedTensors tensors;
    for (const auto& [name, value] : inputs) tensors.emplace(name, value.tensor());
    onnx::NamedValues outputs;
    for (const auto& [name, tensor] : program(tensors)) outputs.emplace(name, tensor);
    return outputs;
  };
  return {ports_of(program.inputs()), ports_of(program.outputs()), run,
          [program] { return std::vector<Executable>{program}; }};
}

Loaded load_model(const Options& options) {
  const Stopwatch loading;
  const onnx::Model model = onnx::load(options.model);
  const double load_seconds = loading.seconds();
  const Stopwatch compiling;
  const onnx::Program program = model.compile(import_options(options));
  fmt::print("load {}, compile {}\n", duration(load_seconds), duration(compiling.seconds()));
  return {model.inputs(), model.outputs(), program, [program] { return program.segments(); }};
}

} // namespace

Loaded load_program(const Options& options) {
  return is_program_file(options.model) ? load_compiled(options) : load_model(options);
}

} // namespace lathe::tool
