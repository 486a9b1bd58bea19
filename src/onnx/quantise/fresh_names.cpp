#include "onnx/quantise/fresh_names.hpp"

namespace lathe::onnx {

void FreshNames::add(const GraphDef& graph) {
  for (const auto& [name, value] : graph.initialisers) names_.insert(name);
  for (const auto* ports : {&graph.inputs, &graph.outputs})
    for (const Port& port : *ports) names_.insert(port.name);
  for (const NodeDef& node : graph.nodes) {
    names_.insert(node.name);
    names_.insert(node.inputs.begin(), node.inputs.end());
    names_.insert(node.outputs.begin(), node.outputs.end());
    for_each_body(node, [&](const GraphDef& body) { add(body); });
  }
}

std::string FreshNames::operator()(const std::string& wanted) {
  std::string name = wanted;
  for (int k = 2; !names_.insert(name).second; ++k) name = wanted + "_" + std::to_string(k);
  return name;
}

} // namespace lathe::onnx
