#include "onnx/quantise/rewrite.hpp"

#include <algorithm>
#include <limits>
#include <set>

#include "onnx/quantise/fresh_names.hpp"

namespace lathe::onnx {
namespace {

Shape shape_of(const std::vector<int64_t>& sizes) { return {sizes.begin(), sizes.end()}; }

class Rewriter {
public:
  Rewriter(const GraphDef& graph, const ActivationScales& activations)
      : activations_(activations), fresh_(graph) {
    made_.graph = graph;
  }

  RewrittenGraph run(const std::vector<FoundLayer>& layers, Place place) {
    made_.outputs.resize(layers.size());
    std::map<size_t, size_t> at; // which layer a position is
    for (size_t k = 0; k < layers.size(); ++k)
      if (layers[k].is_quantised()) at[layers[k].position] = k;
    const std::vector<NodeDef> given = std::move(made_.graph.nodes);
    for (size_t position = 0; position < given.size(); ++position) {
      const auto found = at.find(position);
      if (found == at.end() || place == Place::Beside) made_.graph.nodes.push_back(given[position]);
      if (found == at.end()) continue;
      NodeDef node = given[position];
      node.inputs = integer_inputs(node, layers[found->second]);
      if (place == Place::Beside) {
        node.name = fresh_(node.name + ".quantised");
        node.outputs = {fresh_(node.outputs[0] + ".quantised")};
      }
      made_.outputs[found->second] = node.outputs[0];
      made_.graph.nodes.push_back(std::move(node));
    }
    remove_unread();
    return std::move(made_);
  }

private:
  std::string constant(const std::string& wanted, Value value) {
    const std::string name = fresh_(wanted);
    made_.graph.initialisers.emplace(name, std::move(value));
    return name;
  }

  std::string node(const char* op, const std::string& output, std::vector<std::string> inputs,
                   decltype(NodeDef::attributes) attributes = {}) {
    const std::string name = fresh_(output);
    made_.graph.nodes.push_back({name, op, "", std::move(inputs), {name}, std::move(attributes)});
    return name;
  }

  std::vector<std::string> integer_inputs(const NodeDef& node, const FoundLayer& layer) {
    std::vector<std::string> inputs = node.inputs;
    const Operands& operands = layer.operands;
    const std::string data = node.inputs[operands.data], weights = node.inputs[operands.weights];
    inputs[operands.weights] = quantised_weights(weights, layer);
    const auto activation = activations_.find(data);
    if (activation != activations_.end())
      inputs[operands.data] = quantised_activation(data, activation->second);
    const std::vector<float> bias = layer.corrected_bias();
    if (bias.empty() || !operands.bias) return inputs;
    inputs.resize(std::max(inputs.size(), *operands.bias + 1));
    std::string& name = inputs[*operands.bias];
    const std::string called = name.empty() ? node.name + ".bias" : name;
    if (activation != activations_.end())
      if (const std::string made = quantised_bias(called, bias, layer, activation->second.scale);
          !made.empty()) {
        name = made;
        return inputs;
      }
    if (!layer.shift.empty()) name = constant(called + ".corrected", Tensor::from(bias));
    return inputs;
  }

  std::string quantised_activation(const std::string& name, const ActivationScale& by) {
    std::string& known = done_[name];
    if (!known.empty()) return known;
    const std::string scale = constant(name + ".scale", Tensor::from(std::vector<float>{by.scale}, {})),
                      zero = constant(name + ".zero_point",
                                      Tensor::from(std::vector<uint8_t>{by.zero_point}, {})),
                      codes = node("QuantizeLinear", name + ".u8", {name, scale, zero});
    return known = node("DequantizeLinear", name + ".dequantised", {codes, scale, zero});
  }

  std::string quantised_weights(const std::string& name, const FoundLayer& layer) {
    std::string& known = done_weights_[{name, layer.groups.axis}];
    if (!known.empty()) return known;
    const IntegerWeights& weights = *layer.weights;
    const Shape shape = shape_of(layer.report.weights);
    const bool is_half = layer.report.format == "w4";
    const Tensor codes = is_half ? Tensor::from_memory(packed_halves(weights.values).data(),
                                                       weights.values.size(), DType::I4, shape)
                                 : Tensor::from(weights.values, shape);
    decltype(NodeDef::attributes) attributes;
    if (layer.groups.axis >= 0) attributes["axis"] = int64_t{layer.groups.axis};
    if (layer.groups.block > 0) attributes["block_size"] = layer.groups.block;
    const Tensor scales = Tensor::from(weights.scales, shape_of(weights.scale_shape));
    return known =
               node("DequantizeLinear", name + ".dequantised",
                    {constant(name + (is_half ? ".i4" : ".i8"), codes), constant(name + ".scale", scales)},
                    std::move(attributes));
  }

  /// In units of a product's least difference, as an i32 accumulator has them; "" where it does not fit.
  std::string quantised_bias(const std::string& name, const std::vector<float>& bias, const FoundLayer& layer,
                             float activation_scale) {
    std::vector<float> scales;
    for (const float scale : layer.weights->scales) scales.push_back(scale * activation_scale);
    for (const float scale : scales)
      if (scale < std::numeric_limits<float>::min()) return "";
    const auto codes = integer_bias(bias, scales);
    if (!codes) return "";
    return node(
        "DequantizeLinear", name + ".dequantised",
        {constant(name + ".i32", Tensor::from(*codes)), constant(name + ".scale", Tensor::from(scales))},
        {{"axis", int64_t{0}}});
  }

  void remove_unread() {
    GraphDef& graph = made_.graph;
    std::set<std::string> read;
    for (const Port& port : graph.outputs) read.insert(port.name);
    for (const std::string& name : made_.outputs) read.insert(name);
    std::vector<NodeDef> kept;
    for (auto node = graph.nodes.rbegin(); node != graph.nodes.rend(); ++node) {
      bool is_read = false;
      for (const std::string& output : node->outputs) is_read |= !output.empty() && read.count(output) > 0;
      if (!is_read) continue;
      for (const std::string& name : names_read(*node)) read.insert(name);
      kept.push_back(std::move(*node));
    }
    graph.nodes.assign(std::make_move_iterator(kept.rbegin()), std::make_move_iterator(kept.rend()));
    // Weights that a file also lists as inputs are no inputs any more.
    std::erase_if(graph.inputs, [&](const Port& port) { return graph.initialisers.count(port.name) > 0; });
    std::erase_if(graph.initialisers, [&](const auto& entry) { return !read.count(entry.first); });
  }

  const ActivationScales& activations_;
  RewrittenGraph made_;
  FreshNames fresh_;
  std::map<std::string, std::string> done_;
  std::map<std::pair<std::string, int>, std::string> done_weights_;
};

} // namespace

RewrittenGraph with_integers(const GraphDef& graph, const std::vector<FoundLayer>& layers,
                             const ActivationScales& activations, Place place) {
  return Rewriter(graph, activations).run(layers, place);
}

} // namespace lathe::onnx
