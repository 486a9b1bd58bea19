// Rewrites of a model's graph before it is traced. What Tensor's interning and constant folding do by
// themselves has no rule here: equal nodes, reshapes that change nothing, arithmetic of constants.
#pragma once
#include "onnx/graph.hpp"

namespace lathe::onnx {

struct AppliedRule {
  std::string rule, node; // the node that went
};

/// Rules, in this order, each over all nodes:
///   identity       Identity goes.
///   dropout        Dropout that drops nothing goes, if nobody reads its mask.
///   transposes     A Transpose that undoes the one it reads from goes.
///   constants      ConstantOfShape and Constant become initialisers.
///   batch-norm     BatchNormalization of a convolution with constant weights goes into those.
///   requantise     A QuantizeLinear that undoes a DequantizeLinear goes. What lies between them and only moves
///                  numbers or takes the largest of some, as Transpose, MaxPool and Relu do, reads the integers.
/// Bodies stay as they are, and so does what they or the caller read by name.
void apply_rules(Model::Impl& model, std::vector<AppliedRule>* applied = nullptr);

} // namespace lathe::onnx
