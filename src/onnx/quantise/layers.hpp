// The nodes of a model that could read integers, and why others can't.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lathe/onnx/quantise.hpp"
#include "onnx/quantise/weights.hpp"
#include "onnx/traced_values.hpp"

namespace lathe::onnx {

/// Of a MatMul, Gemm or Conv: which input is what.
struct Operands {
  size_t data = 0, weights = 1;
  std::optional<size_t> bias{}; // constant, or not there yet: which input it would be
  int channel_axis = -1;        // of the weights, along which the output's channels lie; -1: they have none
  int sum_axis = 0; // of the weights, a product's terms lie along it; of a Conv, its input channels
};

struct FoundLayer {
  QuantisedLayer report;
  size_t position = 0; // among the graph's nodes
  Operands operands{};
  ScaleGroups groups{};
  std::shared_ptr<const IntegerWeights> weights{}; // null: the layer stays in f32
  std::vector<float> bias{};                       // of one element a channel; empty if there is none
  double bias_factor = 1;                          // by which the node multiplies it
  std::vector<double>
      shift{}; // of each output channel: what to add, so that its mean is that of f32; may be empty

  bool is_quantised() const { return weights != nullptr; }
  void leave(const std::string& why);
  /// What the node should read as its bias; empty: none.
  std::vector<float> corrected_bias() const;
};

/// In the order of the nodes; behind them those of bodies and functions, which are never quantised.
std::vector<FoundLayer> find_layers(const Model::Impl& model, const TracedValues& traced,
                                    const QuantiseOptions& options);

} // namespace lathe::onnx
