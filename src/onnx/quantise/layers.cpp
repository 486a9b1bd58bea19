#include "onnx/quantise/layers.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "onnx/node_attribute.hpp"
#include "onnx/ops/values.hpp"

namespace lathe::onnx {
namespace {

/// What has weights but no form that reads integers here.
bool stays_float(const NodeDef& node) {
  static const std::set<std::string> ops = {"ConvTranspose", "DeformConv", "Einsum", "GRU", "LSTM", "RNN"};
  return node.domain.empty() && ops.count(node.op) > 0;
}

bool multiplies(const NodeDef& node) {
  return node.domain.empty() && (node.op == "MatMul" || node.op == "Gemm" || node.op == "Conv");
}

class Finder {
public:
  Finder(const Model::Impl& model, const TracedValues& traced, const QuantiseOptions& options)
      : model_(model), options_(options) {
    if (auto found = traced.find(&model.graph); found != traced.end()) values_ = &found->second;
    for (const NodeDef& node : model.graph.nodes)
      for (const std::string& output : node.outputs) makers_[output] = &node;
  }

  std::vector<FoundLayer> run() {
    for (size_t k = 0; k < model_.graph.nodes.size(); ++k) {
      const NodeDef& node = model_.graph.nodes[k];
      if (model_.functions.count({node.domain, node.op})) continue;
      if (multiplies(node) || stays_float(node)) add(node, k);
    }
    for (const NodeDef& node : model_.graph.nodes)
      for_each_body(node, [&](const GraphDef& body) {
        add_inner(body, fmt::format("it is in a body of node '{}'", node.name));
      });
    for (const auto& [key, function] : model_.functions)
      add_inner(function.body, fmt::format("it is in function '{}'", function.name));
    return std::move(layers_);
  }

private:
  void add(const NodeDef& node, size_t position) {
    FoundLayer layer{.report = {.node = node.name, .op = node.op, .format = "f32"}, .position = position};
    layer.report.why = stays_float(node) ? "a " + node.op + " has no form with integers" : fill(layer, node);
    if (layer.is_quantised()) {
      layer.report.format = options_.weights_only ? fmt::format("w{}", options_.weights_only) : "i8";
      if (std::count(options_.keep.begin(), options_.keep.end(), node.name)) layer.leave("kept as asked");
    }
    layers_.push_back(std::move(layer));
  }

  void add_inner(const GraphDef& body, const std::string& why) {
    for (const NodeDef& node : body.nodes) {
      if (multiplies(node) || stays_float(node))
        layers_.push_back({.report = {.node = node.name, .op = node.op, .format = "f32", .why = why}});
      for_each_body(node, [&](const GraphDef& inner) { add_inner(inner, why); });
    }
  }

  const Value* value(const std::string& name) const {
    if (auto found = model_.graph.initialisers.find(name); found != model_.graph.initialisers.end())
      return &found->second;
    if (!values_) return nullptr;
    auto found = values_->find(name);
    return found == values_->end() ? nullptr : &found->second;
  }

  /// The value of an input that depends on nothing that the model is fed.
  const Value* constant(const NodeDef& node, size_t input) const {
    const Value* found = input < node.inputs.size() ? value(node.inputs[input]) : nullptr;
    const bool known =
        found && found->is_tensor() && is_static(found->shape()) && is_constant(found->tensor());
    return known ? found : nullptr;
  }

  /// Why the layer stays in f32; "" if it does not.
  std::string fill(FoundLayer& layer, const NodeDef& node) {
    if (node.inputs.size() < 2) return "it has too few inputs";
    const Value *left = constant(node, 0), *right = constant(node, 1);
    if (left && right) return "it depends on no input";
    if (!right && (!left || node.op == "Conv")) return "its weights are not constant";
    const Value& weights = right ? *right : *left;
    const size_t data = right ? 0 : 1;
    layer.operands = {.data = data, .weights = 1 - data};
    for (const Expr size : weights.shape()) layer.report.weights.push_back(size.value());
    if (const std::string why = unfit(node, weights, value(node.inputs[data])); !why.empty()) return why;
    if (const auto maker = makers_.find(node.inputs[1 - data]); maker != makers_.end()) {
      if (maker->second->op == "DequantizeLinear") return "its weights are integers already";
      // Such as the matrix of a Fourier transform: the file would grow.
      if (elements_behind(node.inputs[1 - data]) < num_elements(weights.shape()).value())
        return "its weights are computed from fewer numbers";
    }
    set_axes(layer.operands, node, weights.rank());
    set_bias(layer, node);
    layer.groups = groups_of(layer, node);
    layer.weights = integers(node.inputs[1 - data], weights, layer);
    return layer.weights ? "" : "its weights are not finite";
  }

  /// Of the initialisers that a value is computed from, each once.
  int64_t elements_behind(const std::string& name) const {
    int64_t elements = 0;
    std::set<std::string> seen{name};
    std::vector<std::string> open{name};
    while (!open.empty()) {
      const std::string next = open.back();
      open.pop_back();
      const auto initialiser = model_.graph.initialisers.find(next);
      if (initialiser != model_.graph.initialisers.end() && initialiser->second.is_tensor())
        elements += num_elements(initialiser->second.shape()).value();
      if (const auto maker = makers_.find(next); maker != makers_.end())
        for (const std::string& input : names_read(*maker->second))
          if (seen.insert(input).second) open.push_back(input);
    }
    return elements;
  }

  static std::string unfit(const NodeDef& node, const Value& weights, const Value* data) {
    if (weights.dtype() != DType::F32) return fmt::format("its weights are {}", to_string(weights.dtype()));
    if (data && data->is_tensor() && data->dtype() != DType::F32)
      return fmt::format("its input is {}", to_string(data->dtype()));
    if (weights.is_empty()) return "its weights have no elements";
    const int least = node.op == "MatMul" ? 1 : node.op == "Gemm" ? 2 : 3;
    return weights.rank() < least ? fmt::format("its weights have {} axes", weights.rank()) : "";
  }

  static void set_axes(Operands& operands, const NodeDef& node, int rank) {
    const bool on_right = operands.weights == 1;
    if (node.op == "Conv") {
      operands.channel_axis = 0, operands.sum_axis = 1;
      return;
    }
    if (rank == 1) return;
    const char* flag = on_right ? "transB" : "transA";
    const bool transposed = node.op == "Gemm" && attribute<int64_t>(node, flag).value_or(0) != 0;
    operands.channel_axis = on_right != transposed ? rank - 1 : rank - 2;
    operands.sum_axis = on_right != transposed ? rank - 2 : rank - 1;
  }

  void set_bias(FoundLayer& layer, const NodeDef& node) {
    if (layer.operands.weights != 1 || node.op == "MatMul") return;
    layer.bias_factor = attribute<double>(node, "beta").value_or(1);
    if (layer.bias_factor == 0) return;
    if (node.inputs.size() < 3 || node.inputs[2].empty()) {
      layer.operands.bias = 2;
      return;
    }
    const Value* bias = constant(node, 2);
    if (!bias || bias->dtype() != DType::F32 || bias->rank() != 1) return;
    if (bias->shape()[0] != layer.report.weights[static_cast<size_t>(layer.operands.channel_axis)]) return;
    layer.operands.bias = 2;
    layer.bias = bias->tensor().to_vector<float>();
  }

  /// Weights of 4 bits share scales in blocks, where a block does not reach beyond what is summed. A filter
  /// with few input channels has one scale.
  ScaleGroups groups_of(const FoundLayer& layer, const NodeDef& node) const {
    const int64_t summed = layer.report.weights[static_cast<size_t>(layer.operands.sum_axis)];
    const bool is_small = node.op == "Conv" && summed < options_.block;
    if (options_.weights_only != 4 || options_.block == 0 || is_small) return {layer.operands.channel_axis};
    return {layer.operands.sum_axis, std::min(options_.block, summed)};
  }

  /// Once for layers that share weights.
  std::shared_ptr<const IntegerWeights> integers(const std::string& name, const Value& weights,
                                                 const FoundLayer& layer) {
    auto& made = made_[{name, layer.groups.axis}];
    if (made) return made;
    const std::vector<float> floats = weights.tensor().to_vector<float>();
    const int bits = options_.weights_only == 4 ? 4 : 8;
    if (auto integers = integer_weights(floats, layer.report.weights, layer.groups, bits))
      made = std::make_shared<const IntegerWeights>(std::move(*integers));
    return made;
  }

  const Model::Impl& model_;
  const QuantiseOptions& options_;
  const std::map<std::string, Value>* values_ = nullptr;
  std::map<std::string, const NodeDef*> makers_;
  std::map<std::pair<std::string, int>, std::shared_ptr<const IntegerWeights>> made_;
  std::vector<FoundLayer> layers_;
};

} // namespace

void FoundLayer::leave(const std::string& why) {
  weights = nullptr;
  report.format = "f32";
  report.why = why;
}

std::vector<float> FoundLayer::corrected_bias() const {
  std::vector<float> corrected = bias;
  corrected.resize(std::max(bias.size(), shift.size()));
  for (size_t k = 0; k < shift.size(); ++k)
    corrected[k] = static_cast<float>(corrected[k] + shift[k] / bias_factor);
  return corrected;
}

std::vector<FoundLayer> find_layers(const Model::Impl& model, const TracedValues& traced,
                                    const QuantiseOptions& options) {
  std::vector<FoundLayer> layers = Finder(model, traced, options).run();
  for (const std::string& name : options.keep)
    if (std::none_of(layers.begin(), layers.end(),
                     [&](const FoundLayer& l) { return l.report.node == name; }))
      throw Error(ErrorKind::Name,
                  fmt::format("{}: node '{}' is to stay in f32, expected the name of a layer with weights",
                              model.path, name));
  return layers;
}

} // namespace lathe::onnx
