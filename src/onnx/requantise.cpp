// QuantizeLinear of a DequantizeLinear's numbers: with the same scale and zero point the integers come back.
#include <array>
#include <cmath>

#include "onnx/rewriter.hpp"

namespace lathe::onnx {
namespace {

/// Ops each of whose results is one of the numbers of input 0, or 0.
constexpr std::array kMoving{"DepthToSpace", "Expand",    "Flatten",  "Gather",  "MaxPool",
                             "Relu",         "Reshape",   "Slice",    "Squeeze", "SpaceToDepth",
                             "Tile",         "Transpose", "Unsqueeze"};

bool is_moving(const NodeDef& node) {
  return node.outputs.size() == 1 && !node.inputs.empty() &&
         std::find(kMoving.begin(), kMoving.end(), node.op) != kMoving.end();
}

template <class T> bool same_elements(const Value& a, const Value& b) {
  return a.tensor().to_vector<T>() == b.tensor().to_vector<T>();
}

/// Whether both names are the same constant of this dtype.
template <class T> bool is_same(const Rewriter& graph, const std::string& a, const std::string& b) {
  const Value *x = graph.constant(a), *y = graph.constant(b);
  const auto is_one = [](const Value* v) { return v && v->is_tensor() && v->dtype() == dtype_of<T>(); };
  return is_one(x) && is_one(y) && (x == y || same_elements<T>(*x, *y));
}

/// Whether (q - zero point) * scale is finite in f32, and precise enough for a quotient to give q - zero
/// point back.
bool is_precise(const Value& scale) {
  for (const float s : scale.tensor().to_vector<float>())
    if (!(s >= 1e-30f && s <= 1e30f)) return false;
  return true;
}

/// Whether both nodes have the same scale and zero point, and lay them along their axis in the same way. With
/// `one_for_all`, whether there is only one of each.
bool same_scaling(const Rewriter& graph, const NodeDef& a, const NodeDef& b, bool one_for_all) {
  for (const NodeDef* node : {&a, &b}) {
    if (node->inputs.size() != 3) return false;
    for (const auto& [name, value] : node->attributes)
      if (name != "axis" && name != "block_size" && name != "saturate") return false; // of other precisions
  }
  const std::string &zero = a.inputs[2], &other_zero = b.inputs[2];
  if (!is_same<uint8_t>(graph, zero, other_zero) && !is_same<int8_t>(graph, zero, other_zero) &&
      !is_same<uint16_t>(graph, zero, other_zero) && !is_same<int16_t>(graph, zero, other_zero))
    return false;
  if (!is_same<float>(graph, a.inputs[1], b.inputs[1])) return false;
  const Value& scale = *graph.constant(a.inputs[1]);
  if (!is_precise(scale)) return false;
  if (num_elements(scale.shape()).is_const(1) && num_elements(graph.constant(zero)->shape()).is_const(1))
    return true;
  for (const auto& [name, otherwise] : {std::pair{"axis", int64_t{1}}, {"block_size", int64_t{0}}})
    if (attribute<int64_t>(a, name).value_or(otherwise) != attribute<int64_t>(b, name).value_or(otherwise))
      return false;
  return !one_for_all;
}

} // namespace

void rule_requantise(Rewriter& graph, size_t k) {
  const NodeDef& quantise = graph.nodes()[k];
  if (quantise.op != "QuantizeLinear" || quantise.inputs.size() != 3 || graph.fixed(quantise.outputs[0]))
    return;
  std::vector<NodeDef*> between; // from the last to the first
  NodeDef* at = graph.maker(quantise.inputs[0]);
  for (; at && at->domain.empty() && is_moving(*at); at = graph.maker(at->inputs[0])) {
    if (graph.fixed(at->outputs[0]) || graph.readers(at->outputs[0]) != 1) return;
    between.push_back(at);
  }
  if (!at || !at->domain.empty() || at->op != "DequantizeLinear" ||
      !same_scaling(graph, quantise, *at, !between.empty()))
    return;
  const std::string integers = at->inputs[0];
  if (!between.empty()) graph.rewire(*between.back(), 0, integers);
  for (NodeDef* node : between)
    if (node->op == "Relu") { // the integer of 0 is the zero point
      node->op = "Max";
      node->inputs.emplace_back();
      graph.rewire(*node, 1, quantise.inputs[2]);
    }
  graph.replace("requantise", k, between.empty() ? integers : between.front()->outputs[0]);
  if (graph.readers(at->outputs[0]) == 0 && !graph.fixed(at->outputs[0]))
    graph.remove("requantise", static_cast<size_t>(at - graph.nodes().data()));
}

} // namespace lathe::onnx
