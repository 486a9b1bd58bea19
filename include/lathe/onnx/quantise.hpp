// Post-training quantisation: a model of floats becomes one whose matrix products and convolutions read integers.
//
// The result is a standard model: QuantizeLinear and DequantizeLinear stand around what is quantised, so that lathe and other
// runtimes run it. Activations become u8 with one scale and zero point a tensor, from the range that the samples show. Weights
// become i8, symmetric, with a scale for each output channel. With `weights_only` activations stay floats.
//
//   onnx::Model model = onnx::load("model.onnx");
//   onnx::Quantised made = onnx::quantise(model, {{{"x", first}}, {{"x", second}}}, {});
//   for (const onnx::QuantisedLayer& layer : made.layers) std::cout << layer.node << " " << layer.format << "\n";
//   std::string file = onnx::serialise(made.model);
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "lathe/onnx/model.hpp"

namespace lathe::onnx {

enum class Calibration {
  Range,       ///< from the lowest to the highest value seen
  Percentile,  ///< without the outermost values: see QuantiseOptions::percentile
};

struct QuantiseOptions {
  Calibration calibration = Calibration::Range;
  double percentile = 99.99;     ///< of the values lie within the range; half of the rest lies below it, half above
  int weights_only = 0;          ///< 8 or 4: bits of the weights, while activations stay floats; 0: both are quantised
  int64_t block = 32;            ///< weights of 4 bits that follow each other along the summed axis and share a scale; 0: a scale a channel
  bool correct_bias = true;      ///< of a Gemm or Conv: the mean of each output channel, on the samples, stays that of f32
  std::vector<std::string> keep{};     ///< names of nodes that stay in f32
  std::optional<double> most_error{};  ///< a layer whose own error is larger stays in f32
  ImportOptions import{};        ///< how the models that measure are compiled
  /// Called for each sample with the outputs of the model and of the quantised one.
  std::function<void(size_t sample, const NamedValues& before, const NamedValues& after)> observe{};
};

/// A node that computes products of matrices, a convolution or a recurrence.
struct QuantisedLayer {
  std::string node, op;
  std::vector<int64_t> weights{};  ///< their shape; empty if they are not known
  std::string format;              ///< "i8", "w8", "w4" or "f32"
  std::string why{};               ///< it stays in f32
  /// Root mean square of a difference over that of the f32 values. `own_error`: of the layer's output where this layer alone is
  /// quantised; without samples, of its weights. `error`: of its output in the quantised model.
  std::optional<double> own_error{}, error{};
};

struct QuantisedOutput {
  std::string name;
  double error;  ///< as QuantisedLayer::error; of integers and bools, the share of elements that differ
};

struct Quantised {
  Model model;
  std::vector<QuantisedLayer> layers;   ///< in the order of the nodes; those of bodies and functions follow
  std::vector<QuantisedOutput> outputs; ///< of tensors of numbers; none without samples
};

/// Raises the model's opset to 13, or to 21 for weights of 4 bits, where it is lower. Without samples only `weights_only` is possible.
/// Error(Value) for options that do not fit or no samples, Error(Name) for a name of `keep` that no layer has, and for an op that
/// can't be raised; what running the model on the samples throws.
Quantised quantise(const Model& model, const std::vector<NamedValues>& samples, const QuantiseOptions& options = {});

}  // namespace lathe::onnx
