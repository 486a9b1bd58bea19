// lathe inspect: what a model is made of, or what a program compiled from one does.
#include <fmt/format.h>

#include <map>

#include "lathe/program_file.hpp"
#include "loaded.hpp"

namespace lathe::tool {
namespace {

std::string count(double value) {
  const char* unit = "";
  for (const char* next : {"k", "M", "G", "T"}) {
    if (value < 1000) break;
    value /= 1000, unit = next;
  }
  return fmt::format("{:.4g} {}", value, unit);
}

void print_layers(const std::vector<onnx::Layer>& layers) {
  fmt::print("{:<40} {:<22} {:<24} {:>12} {:>12}\n", "node", "op", "output", "FLOP", "bytes");
  for (const onnx::Layer& layer : layers) {
    const onnx::Operand* first = layer.outputs.empty() ? nullptr : &layer.outputs[0];
    fmt::print("{:<40} {:<22} {:<24} {:>12} {:>12}\n",
               std::string(static_cast<size_t>(2 * layer.depth), ' ') + layer.node, layer.op,
               first && first->shape ? to_string(*first->shape) : "?", count(layer.flops),
               count(layer.bytes));
  }
}

void print_ports(const std::vector<onnx::Port>& inputs, const std::vector<onnx::Port>& outputs) {
  for (const onnx::Port& port : inputs) fmt::print("input: {} {}\n", port.name, port.text);
  for (const onnx::Port& port : outputs) fmt::print("output: {} {}\n", port.name, port.text);
}

int inspect_program(const Options& options) {
  const Loaded program = load_program(options);
  print_ports(program.inputs, program.outputs);
  fmt::print("{}", program.instructions());
  return 0;
}

} // namespace

int inspect_command(const Options& options) {
  if (program_file_format(options.model)) return inspect_program(options);
  const onnx::Model model = read_model(options);
  const std::vector<onnx::Layer> layers = model.layers(import_options(options));
  if (options.listing) {
    fmt::print("{}", onnx::listing(layers));
    return 0;
  }
  for (const auto& [key, value] : model.metadata()) fmt::print("{}: {}\n", key, value);
  for (const auto& [domain, version] : model.opsets())
    fmt::print("opset: {} {}\n", domain.empty() ? "ai.onnx" : domain, version);
  print_ports(model.inputs(), model.outputs());
  std::map<std::string, int> ops;
  double flops = 0;
  for (const onnx::Layer& layer : layers) ++ops[layer.op], flops += layer.flops;
  fmt::print("parameters: {}\nnodes: {}\noperations: {}FLOP\nops:",
             count(static_cast<double>(model.parameter_count())), model.node_count(), count(flops));
  for (const auto& [op, times] : ops) fmt::print(" {}x{}", op, times);
  fmt::print("\n");
  if (options.layers) print_layers(layers);
  const std::vector<onnx::Problem> problems = model.problems();
  for (const onnx::Problem& problem : problems) fmt::print("not supported: {}\n", problem.message);
  return problems.empty() ? 0 : 1;
}

} // namespace lathe::tool
