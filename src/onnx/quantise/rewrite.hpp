// Puts QuantizeLinear and DequantizeLinear into a graph.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "onnx/quantise/calibration.hpp"
#include "onnx/quantise/layers.hpp"

namespace lathe::onnx {

/// By the names of the values; none of weights alone.
using ActivationScales = std::map<std::string, ActivationScale>;

enum class Place {
  Instead, // of the layer in f32
  Beside,  // it, reading the same: its output has a name of its own
};

/// What was made of a graph, and the name of each layer's output in it; "" for layers that stay in f32.
struct RewrittenGraph {
  GraphDef graph;
  std::vector<std::string> outputs;
};

/// Each value that quantised layers read is quantised once, and so are weights that layers share. What
/// nothing reads afterwards is gone.
RewrittenGraph with_integers(const GraphDef& graph, const std::vector<FoundLayer>& layers,
                             const ActivationScales& activations, Place place);

} // namespace lathe::onnx
