#include "loaded.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "cli/duration.hpp"
#include "lathe/program_file.hpp"
#include "values.hpp"

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

Loaded load_executable_file(const Options& options) {
  const Stopwatch loading;
  const Executable program = load_executable(options.model);
  if (!options.json) fmt::print("load {}\n", duration(loading.seconds()));
  const auto run = [program](const onnx::NamedValues& inputs) {
    NamedTensors tensors;
    for (const auto& [name, value] : inputs) tensors.emplace(name, value.tensor());
    onnx::NamedValues outputs;
    for (const auto& [name, tensor] : program(tensors)) outputs.emplace(name, tensor);
    return outputs;
  };
  return {ports_of(program.inputs()), ports_of(program.outputs()), run,
          [program] { return std::vector<Executable>{program}; }, [program] { return program.print(); }, [] {}};
}

Loaded callable(const onnx::Program& program) {
  return {program.inputs(), program.outputs(), program, [program] { return program.segments(); },
          [program] { return program.print(); }, [program] { program.wait_for_best(); }};
}

/// A file of `format` that compile() or a program that uses lathe wrote.
Loaded load_compiled(const Options& options, const std::string& format) {
  if (!options.device.empty())
    throw Error(ErrorKind::Value, options.model + ": compiled for its device already, expected no --device");
  if (!options.trace.empty())
    throw Error(ErrorKind::Value, options.model + ": compiled already, expected no --trace but a model; --profile "
                                                  "writes the times of a run");
  if (format.empty()) return load_executable_file(options);
  const Stopwatch loading;
  const onnx::Program program = onnx::load_program(options.model);
  if (!options.json) fmt::print("load {}\n", duration(loading.seconds()));
  return callable(program);
}

Loaded load_model(const Options& options, bool quick_first) {
  const Stopwatch loading;
  const onnx::Model model = read_model(options);
  const double load_seconds = loading.seconds();
  const Stopwatch compiling;
  onnx::ImportOptions import = import_options(options);
  import.quick_first = quick_first;
  const onnx::Program program = model.compile(import);
  if (!options.json) fmt::print("load {}, compile {}\n", duration(load_seconds), duration(compiling.seconds()));
  return callable(program);
}

const onnx::Port* find_port(const std::vector<onnx::Port>& ports, const std::string& name) {
  auto found =
      std::find_if(ports.begin(), ports.end(), [&](const onnx::Port& port) { return port.name == name; });
  return found == ports.end() ? nullptr : &*found;
}

/// Seeded, uniform in [0, 1); integers are 0: they are often indices.
onnx::Value random_value(const onnx::Port& port, const onnx::ImportOptions& options, uint64_t seed) {
  if (port.kind != onnx::Value::Kind::Tensor || !port.shape)
    throw Error(ErrorKind::Value,
                fmt::format("--random: input '{}' is {}, expected a tensor of numbers, of known shape",
                            port.name, port.text));
  Shape shape = *port.shape;
  for (Expr& size : shape)
    if (!size.is_const()) {
      auto fixed = options.sizes.find(size.name());
      size = fixed == options.sizes.end() ? Expr(1) : Expr(fixed->second);
    }
  const DType drawn = is_narrow(port.dtype) ? DType::F32 : port.dtype;
  const Tensor tensor = is_float(port.dtype) ? Tensor::rand(shape, seed, drawn).cast(port.dtype)
                                             : Tensor::zeros(shape, port.dtype);
  return tensor.realise();
}
} // namespace

Loaded load_program(const Options& options, bool quick_first) {
  const std::optional<std::string> format = program_file_format(options.model);
  return format ? load_compiled(options, *format) : load_model(options, quick_first);
}

onnx::Model read_model(const Options& options) {
  const onnx::Model model = onnx::load(options.model);
  const std::vector<onnx::Port> defaults = model.defaults();
  std::vector<std::string> fed;
  for (const std::string& text : options.inputs)
    if (const size_t equals = text.find('='); equals != std::string::npos)
      if (const onnx::Port* port = find_port(defaults, text.substr(0, equals))) fed.push_back(port->name);
  return fed.empty() ? model : model.without_defaults(fed);
}

onnx::NamedValues read_inputs(const std::vector<onnx::Port>& ports, const Options& options) {
  const onnx::ImportOptions import = import_options(options);
  onnx::NamedValues inputs;
  size_t next = 0;
  for (const std::string& text : options.inputs) {
    const size_t equals = text.find('=');
    const onnx::Port* port = equals != std::string::npos ? find_port(ports, text.substr(0, equals))
                             : next < ports.size()       ? &ports[next]
                                                         : nullptr;
    if (!port) throw Error(ErrorKind::Name, fmt::format("--input {}: the model has no such input", text));
    inputs[port->name] = read_value(equals == std::string::npos ? text : text.substr(equals + 1), *port);
    ++next;
  }
  if (options.random)
    for (size_t k = 0; k < ports.size(); ++k)
      if (const onnx::Port& port = ports[k]; !inputs.count(port.name))
        inputs[port.name] = random_value(port, import, k + 1);
  return inputs;
}

onnx::ImportOptions import_options_for(const onnx::Model& model, const Options& options) {
  onnx::ImportOptions import = import_options(options);
  if (options.inputs.empty() && !options.random) return import;
  const onnx::NamedValues inputs = read_inputs(model.inputs(), options);
  for (const onnx::Port& port : model.inputs()) {
    const auto given = inputs.find(port.name);
    if (given == inputs.end() || !port.shape || !given->second.has_shape()) continue;
    const Shape& shape = given->second.shape();
    if (shape.size() != port.shape->size())
      throw Error(ErrorKind::Shape, fmt::format("input '{}' is {}, expected {}", port.name,
                                                type_text(given->second), port.text));
    for (size_t axis = 0; axis < shape.size(); ++axis)
      if (const Expr named = (*port.shape)[axis]; named.is_var())
        import.sizes.emplace(named.name(), shape[axis].value());
  }
  return import;
}

} // namespace lathe::tool
