// Models of one node of ai.onnx.ml, fed and run.
//
//   std::vector<onnx::Value> y = ml_node("Scaler", {x}, {floats_attribute("offset", {1})});
#pragma once
#include "support/onnx_node.hpp"

namespace lathe::test {

inline Attribute floats_attribute(const std::string& name, const std::vector<double>& values) {
  Attribute proto = attribute_of_type(name, Attribute::FLOATS);
  for (double value : values) proto.add_floats(static_cast<float>(value));
  return proto;
}

/// One node at a version of ai.onnx.ml. `batch` names the first size of every input.
inline std::vector<onnx::Value> ml_node(const std::string& op, const std::vector<onnx::Value>& inputs,
                                        const Attributes& attributes, size_t outputs = 1, int version = 3,
                                        const char* batch = nullptr) {
  Graph graph;
  Names in, out;
  onnx::NamedValues fed;
  for (const onnx::Value& input : inputs) {
    in.push_back(fmt::format("x{}", in.size()));
    fed[in.back()] = input;
    declare(graph, in.back(), input, batch);
  }
  for (size_t k = 0; k < outputs; ++k) out.push_back(fmt::format("y{}", k));
  graph.node(op, in, out, attributes, "ai.onnx.ml");
  for (const std::string& name : out) graph.output(name);
  lathe_onnx::ModelProto proto;
  proto.ParseFromString(model(graph));
  auto& opset = *proto.add_opset_import();
  opset.set_domain("ai.onnx.ml");
  opset.set_version(version);
  const onnx::NamedValues results = load(proto.SerializeAsString()).compile()(fed);
  std::vector<onnx::Value> values;
  for (const std::string& name : out) values.push_back(results.at(name));
  return values;
}

/// What a node's error says; nothing if there is none.
inline std::string ml_error(const std::string& op, const std::vector<onnx::Value>& inputs,
                            const Attributes& attributes, int version = 3) {
  try {
    ml_node(op, inputs, attributes, 1, version);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

inline bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

} // namespace lathe::test
