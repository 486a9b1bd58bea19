// A model node by node, with the shapes and the work that follow from its inputs.
#include <fmt/format.h>

#include <set>

#include "onnx/traced_values.hpp"

namespace lathe::onnx {
namespace {

double elements(const Operand& operand) {
  double count = operand.shape ? 1 : 0;
  if (operand.shape)
    for (Expr size : *operand.shape) count *= static_cast<double>(size.hi());
  return count;
}

double size_at(const Operand& operand, int from_end) {
  if (!operand.shape || static_cast<int>(operand.shape->size()) < from_end) return 0;
  return static_cast<double>((*operand.shape)[operand.shape->size() - static_cast<size_t>(from_end)].hi());
}

/// Additions and multiplications of the ops that sum products; of the others, one for each element they make,
/// and none for those that only move elements.
double flops_of(const Layer& layer, const NodeDef& node) {
  static const std::set<std::string> moving = {"Reshape",       "Transpose",    "Flatten",
                                               "Squeeze",       "Unsqueeze",    "Concat",
                                               "Split",         "Slice",        "Pad",
                                               "Expand",        "Tile",         "Identity",
                                               "Gather",        "Dropout",      "Shape",
                                               "Size",          "Constant",     "ConstantOfShape",
                                               "DepthToSpace",  "SpaceToDepth", "GatherElements",
                                               "GatherND",      "Cast",         "If",
                                               "Loop",          "Scan",         "BitCast",
                                               "TensorScatter", "CenterCropPad"};
  if (layer.outputs.empty() || moving.count(layer.op)) return 0;
  const double made = elements(layer.outputs[0]);
  if ((layer.op == "Conv" || layer.op == "ConvInteger" || layer.op == "DeformConv") &&
      layer.inputs.size() > 1 && layer.inputs[1].shape &&
      !layer.inputs[1].shape->empty()) // weights are [out, in / groups, kernel...]
    return 2 * made * elements(layer.inputs[1]) / static_cast<double>(layer.inputs[1].shape->front().hi());
  if (layer.op == "ConvTranspose" && layer.inputs.size() > 1 && layer.inputs[1].shape &&
      !layer.inputs[1].shape->empty())
    return 2 * elements(layer.inputs[0]) * elements(layer.inputs[1]) /
           static_cast<double>(layer.inputs[1].shape->front().hi());
  if (layer.op == "MatMul" && layer.inputs.size() == 2) return 2 * made * size_at(layer.inputs[0], 1);
  if (layer.op == "Attention" && node.domain.empty() && layer.inputs.size() > 2) {
    const double keys =
        size_at(layer.inputs[1], 2) + (layer.inputs.size() > 4 ? size_at(layer.inputs[4], 2) : 0);
    return 2 * (elements(layer.inputs[0]) + made) * keys;
  }
  if (layer.op == "Gemm" && layer.inputs.size() > 1) {
    auto flag = node.attributes.find("transA");
    const auto* transposed = flag == node.attributes.end() ? nullptr : std::get_if<int64_t>(&flag->second);
    return 2 * made * size_at(layer.inputs[0], transposed && *transposed ? 2 : 1);
  }
  if (layer.op == "MaxPool" || layer.op == "AveragePool") {
    double window = 1;
    auto kernel = node.attributes.find("kernel_shape");
    const auto* sizes =
        kernel == node.attributes.end() ? nullptr : std::get_if<std::vector<int64_t>>(&kernel->second);
    if (sizes)
      for (int64_t size : *sizes) window *= static_cast<double>(size);
    return made * window;
  }
  if (layer.op.rfind("Global", 0) == 0 || layer.op.rfind("Reduce", 0) == 0)
    return layer.inputs.empty() ? made : elements(layer.inputs[0]);
  return made;
}

void add_layers(const GraphDef& graph, const std::vector<const GraphDef*>& surroundings,
                const TracedValues& seen, int depth, std::vector<Layer>& out) {
  std::vector<const GraphDef*> around = surroundings;
  around.push_back(&graph);
  auto operand = [&](const std::string& name) {
    Operand made{name};
    for (auto g = around.rbegin(); g != around.rend(); ++g) {
      auto values = seen.find(*g);
      if (values == seen.end()) continue;
      auto value = values->second.find(name);
      if (value == values->second.end() || !value->second.has_shape()) continue;
      if (value->second.is_tensor()) made.dtype = value->second.dtype();
      made.shape = value->second.shape();
      break;
    }
    return made;
  };
  for (const NodeDef& node : graph.nodes) {
    Layer layer{.node = node.name, .op = node.op, .depth = depth};
    for (const std::string& name : node.inputs) layer.inputs.push_back(operand(name));
    for (const std::string& name : node.outputs) layer.outputs.push_back(operand(name));
    layer.flops = flops_of(layer, node);
    for (const auto* side : {&layer.inputs, &layer.outputs})
      for (const Operand& o : *side) layer.bytes += o.dtype ? elements(o) * bits_of(*o.dtype) / 8 : 0;
    out.push_back(std::move(layer));
    for_each_body(node, [&](const GraphDef& body) { add_layers(body, around, seen, depth + 1, out); });
  }
}

std::string text_of(const Operand& operand) {
  return operand.name.empty() ? "" : "%" + operand.name + (operand.shape ? to_string(*operand.shape) : "");
}

} // namespace

std::vector<Layer> Model::layers(const ImportOptions& options) const {
  std::vector<Layer> out;
  add_layers(impl_->graph, {}, trace_values(*impl_, options), 0, out);
  return out;
}

std::string listing(const std::vector<Layer>& layers) {
  std::string out;
  for (const Layer& layer : layers) {
    std::string inputs, outputs;
    for (const Operand& o : layer.inputs) inputs += (inputs.empty() ? "" : ", ") + text_of(o);
    for (const Operand& o : layer.outputs)
      if (!o.name.empty()) outputs += (outputs.empty() ? "" : ", ") + text_of(o);
    out += fmt::format("{}{} = {}({})\n", std::string(static_cast<size_t>(2 * layer.depth), ' '), outputs,
                       layer.op, inputs);
  }
  return out;
}

} // namespace lathe::onnx
