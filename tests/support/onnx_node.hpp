// Models of one node, fed and run.
//
//   std::vector<onnx::Value> y = run_node("Add", {a, b});
#pragma once
#include <fmt/format.h>

#include <string>
#include <vector>

#include "support/onnx_builder.hpp"

namespace lathe::test {

/// Declares an input of a value's type; `batch` names its first size.
inline void declare(Graph& graph, const std::string& name, const onnx::Value& value, const char* batch = nullptr) {
  if (value.is_sequence()) {
    graph.input_sequence(name, value.dtype());
    return;
  }
  if (value.is_map()) {
    const bool strings = value.values().is_strings();
    graph.input_map(name, value.keys().is_strings(), strings ? std::nullopt : std::optional(value.dtype()));
    return;
  }
  Dims dims;
  for (Expr size : value.shape()) dims.emplace_back(size.value());
  if (batch && !dims.empty()) dims[0] = batch;
  if (value.is_strings())
    graph.input_strings(name, dims);
  else
    graph.input(name, value.dtype(), dims);
}

/// One node fed with `inputs`, of which None are left out: its outputs. `batch` names the first size of the
/// first input, and of the others that begin with the same. The node is of version 1 of a `domain` beside
/// ONNX's own.
inline std::vector<onnx::Value> run_node(const std::string& op, const std::vector<onnx::Value>& inputs,
                                         const Attributes& attributes = {}, size_t outputs = 1,
                                         int opset = 17, const char* batch = nullptr,
                                         const std::string& domain = "") {
  Graph graph;
  Names in, out;
  onnx::NamedValues fed;
  for (const onnx::Value& input : inputs) {
    in.push_back(input.is_none() ? "" : fmt::format("x{}", in.size()));
    if (input.is_none()) continue;
    fed[in.back()] = input;
    const bool batched = batch && input.rank() > 0 && input.shape()[0] == inputs[0].shape()[0];
    declare(graph, in.back(), input, batched ? batch : nullptr);
  }
  for (size_t k = 0; k < outputs; ++k) out.push_back(fmt::format("y{}", k));
  graph.node(op, in, out, attributes, domain);
  for (const std::string& name : out) graph.output(name);
  const onnx::NamedValues results = load(model(graph, opset, {}, domain.empty() ? Names{} : Names{domain})).compile()(fed);
  std::vector<onnx::Value> values;
  for (const std::string& name : out) values.push_back(results.at(name));
  return values;
}

/// The output of a node that has one.
inline onnx::Value one(const std::string& op, const std::vector<onnx::Value>& inputs,
                       const Attributes& attributes = {}, int opset = 17, const char* batch = nullptr) {
  return run_node(op, inputs, attributes, 1, opset, batch)[0];
}

inline Tensor axes_of(const std::vector<int64_t>& axes) { return Tensor::from(axes); }
inline onnx::Value no_axes() { return onnx::Value(Tensor::zeros({0}, DType::I64)); }

inline std::vector<float> floats(const onnx::Value& value) {
  return value.tensor().cast(DType::F32).to_vector<float>();
}
inline std::vector<float> floats(const onnx::NamedValues& values, const std::string& name) {
  return values.at(name).tensor().to_vector<float>();
}
inline std::vector<int64_t> integers(const onnx::Value& value) {
  return value.tensor().cast(DType::I64).to_vector<int64_t>();
}

} // namespace lathe::test
