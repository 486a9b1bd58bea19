// What `lathe run` and `lathe check` call: a model that is compiled now, or a program that `lathe compile`
// wrote.
#pragma once
#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "commands.hpp"

namespace lathe::tool {

struct Loaded {
  std::vector<onnx::Port> inputs, outputs;
  std::function<onnx::NamedValues(const onnx::NamedValues&)> run;
  std::function<std::vector<Executable>()> segments; ///< those there are so far
  std::function<std::string()> instructions;         ///< printed
  std::function<void()> wait_for_best;               ///< see onnx::Program
};
/// Says how long it took. `quick_first`: as onnx::ImportOptions has it.
Loaded load_program(const Options& options, bool quick_first = false);
/// The model of the command line, as onnx::load() reads it. Initialisers that `--input` names are inputs.
onnx::Model read_model(const Options& options);
/// What the command line gives for the ports: values from files, and random ones for others if it asks for
/// them.
onnx::NamedValues read_inputs(const std::vector<onnx::Port>& ports, const Options& options);

/// The import options with the sizes of the inputs that the command line gives, where --size does not fix
/// them.
onnx::ImportOptions import_options_for(const onnx::Model& model, const Options& options);

class Stopwatch {
public:
  double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }

private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

} // namespace lathe::tool
