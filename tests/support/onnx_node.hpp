// Models of one node, fed and run.
//
//   std::vector<onnx::Value> y = run_node("Add", {a, b});
#pragma once
#include <fmt/format.h>

#include <string>
#include <vector>

#include "support/onnx_builder.hpp"

namespace lathe::test {

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
    if (input.is_sequence()) {
      graph.input_sequence(in.back(), input.dtype());
      continue;
    }
    Dims dims;
    for (Expr size : input.shape()) dims.emplace_back(size.value());
    if (batch && !dims.empty() && input.shape()[0] == inputs[0].shape()[0]) dims[0] = batch;
    graph.input(in.back(), input.dtype(), dims);
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

inline std::vector<float> floats(const onnx::Value& value) {
  return value.tensor().cast(DType::F32).to_vector<float>();
}
inline std::vector<int64_t> integers(const onnx::Value& value) {
  return value.tensor().cast(DType::I64).to_vector<int64_t>();
}

} // namespace lathe::test
