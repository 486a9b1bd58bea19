#include "onnx/rules.hpp"

#include <algorithm>
#include <cmath>

#include "onnx/node_attribute.hpp"
#include "onnx/rewriter.hpp"

namespace lathe::onnx {
namespace {

void rule_identity(Rewriter& graph, size_t k) {
  const NodeDef& node = graph.nodes()[k];
  if (node.op == "Identity" && node.inputs.size() == 1 && !graph.fixed(node.outputs[0]))
    graph.replace("identity", k, node.inputs[0]);
}

void rule_dropout(Rewriter& graph, size_t k) {
  const NodeDef& node = graph.nodes()[k];
  if (node.op != "Dropout" || node.inputs.empty() || graph.fixed(node.outputs[0])) return;
  for (size_t o = 1; o < node.outputs.size(); ++o)
    if (graph.fixed(node.outputs[o]) || graph.readers(node.outputs[o]) > 0) return;
  // Before opset 7 the flag said that this is a test; since 12 an input says that it is training.
  if (attribute<int64_t>(node, "is_test").value_or(1) == 0) return;
  if (node.inputs.size() > 2 && !node.inputs[2].empty()) {
    const Value* training = graph.constant(node.inputs[2]);
    if (!training || !training->integers() || training->integers()->size() != 1 ||
        !training->integers()->front().is_const(0))
      return;
  }
  graph.replace("dropout", k, node.inputs[0]);
}

void rule_transposes(Rewriter& graph, size_t k) {
  const NodeDef& node = graph.nodes()[k];
  if (node.op != "Transpose" || node.inputs.size() != 1 || graph.fixed(node.outputs[0])) return;
  const NodeDef* before = graph.maker(node.inputs[0]);
  if (!before || !before->domain.empty() || before->op != "Transpose" || before->inputs.size() != 1) return;
  const auto second = attribute<std::vector<int64_t>>(node, "perm"),
             first = attribute<std::vector<int64_t>>(*before, "perm");
  if (first.has_value() != second.has_value()) return; // without it, the axes are reversed
  if (first) {
    if (first->size() != second->size()) return;
    for (size_t axis = 0; axis < second->size(); ++axis) {
      const auto through = static_cast<size_t>((*second)[axis]);
      if (through >= first->size() || (*first)[through] != static_cast<int64_t>(axis)) return;
    }
  }
  graph.replace("transposes", k, before->inputs[0]);
}

void rule_constants(Rewriter& graph, size_t k) {
  const NodeDef& node = graph.nodes()[k];
  if (graph.fixed(node.outputs[0])) return;
  if (node.op == "Constant") {
    const auto value = attribute<Value>(node, "value");
    if (!value) return;
    graph.set_constant(node.outputs[0], *value);
  } else if (node.op == "ConstantOfShape" && node.inputs.size() == 1) {
    const Value* sizes = graph.constant(node.inputs[0]);
    if (!sizes || !sizes->integers() || !is_static(*sizes->integers())) return;
    const Shape shape = *sizes->integers();
    if (std::any_of(shape.begin(), shape.end(), [](Expr size) { return size.value() < 1; })) return;
    const auto fill = attribute<Value>(node, "value");
    graph.set_constant(node.outputs[0],
                       fill ? fill->tensor().reshape({}).expand(shape) : Tensor::zeros(shape));
  } else {
    return;
  }
  graph.remove("constants", k);
}

std::vector<float> floats_of(const Value& value) { return value.tensor().to_vector<float>(); }

/// Scales the weights' filters by scale / sqrt(variance + epsilon), and moves the bias as they do.
void rule_batch_norm(Rewriter& graph, size_t k) {
  const NodeDef& norm = graph.nodes()[k];
  if (norm.op != "BatchNormalization" || norm.inputs.size() != 5 ||
      attribute<int64_t>(norm, "training_mode").value_or(0) ||
      attribute<int64_t>(norm, "is_test").value_or(1) == 0 ||
      attribute<int64_t>(norm, "spatial").value_or(1) == 0)
    return;
  for (size_t o = 1; o < norm.outputs.size(); ++o)
    if (graph.fixed(norm.outputs[o]) || graph.readers(norm.outputs[o]) > 0) return;
  NodeDef* convolution = graph.maker(norm.inputs[0]);
  if (!convolution || !convolution->domain.empty() || convolution->op != "Conv" ||
      convolution->inputs.size() < 2 || graph.fixed(convolution->outputs[0]) ||
      graph.readers(convolution->outputs[0]) != 1)
    return;
  const Value* weights = graph.constant(convolution->inputs[1]);
  const bool has_bias = convolution->inputs.size() > 2 && !convolution->inputs[2].empty();
  std::vector<const Value*> needed{weights};
  for (size_t i = 1; i < 5; ++i) needed.push_back(graph.constant(norm.inputs[i]));
  if (has_bias) needed.push_back(graph.constant(convolution->inputs[2]));
  for (const Value* value : needed)
    if (!value || !value->is_tensor() || value->is_empty() || value->dtype() != DType::F32) return;
  if (weights->rank() == 0) return;
  const int64_t filters = weights->shape()[0].value();
  for (size_t i = 1; i < needed.size(); ++i)
    if (needed[i]->rank() != 1 || !needed[i]->shape()[0].is_const(filters)) return;

  std::vector<float> filter = floats_of(*weights), scale = floats_of(*needed[1]),
                     shift = floats_of(*needed[2]);
  const std::vector<float> mean = floats_of(*needed[3]), variance = floats_of(*needed[4]);
  std::vector<float> bias = has_bias ? floats_of(*needed[5]) : std::vector<float>(scale.size(), 0.0f);
  const double epsilon = attribute<double>(norm, "epsilon").value_or(1e-5);
  const size_t length = filter.size() / scale.size();
  for (size_t f = 0; f < scale.size(); ++f) {
    const double factor = scale[f] / std::sqrt(static_cast<double>(variance[f]) + epsilon);
    for (size_t j = 0; j < length; ++j)
      filter[f * length + j] = static_cast<float>(filter[f * length + j] * factor);
    bias[f] = static_cast<float>((static_cast<double>(bias[f]) - mean[f]) * factor + shift[f]);
  }
  // The convolution takes the norm's place, and its output's name.
  const std::string name = norm.outputs[0];
  graph.set_constant(name + ".weights", Tensor::from(filter, weights->shape()));
  graph.set_constant(name + ".bias", Tensor::from(bias));
  graph.take_place("batch-norm", k, *convolution,
                   {convolution->inputs[0], name + ".weights", name + ".bias"});
}

} // namespace

void apply_rules(Model::Impl& model, std::vector<AppliedRule>* applied) {
  Rewriter graph(model.graph, applied);
  for (auto rule :
       {rule_identity, rule_dropout, rule_transposes, rule_constants, rule_batch_norm, rule_requantise})
    for (size_t k = 0; k < graph.nodes().size(); ++k)
      if (const NodeDef& node = graph.nodes()[k]; !graph.gone(k) && !node.outputs.empty() &&
                                                  node.domain.empty() &&
                                                  !model.functions.count({node.domain, node.op}))
        rule(graph, k);
  graph.finish({model.path, ""});
}

} // namespace lathe::onnx
