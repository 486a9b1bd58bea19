// Weights as integers of 8 or 4 bits, symmetric about 0.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace lathe::onnx {

/// Which weights share a scale.
struct ScaleGroups {
  int axis = -1; // a scale for each place along it; -1: one for all
  int64_t block =
      0; // if not 0: instead, one for each run of so many along the axis, and each place of the others
};

struct IntegerWeights {
  std::vector<int8_t> values;
  std::vector<float> scales;        // in row-major order of scale_shape
  std::vector<int64_t> scale_shape; // {} for one scale
  double error = 0;                 // root mean square of what rounding changed, over that of the weights
};

/// `shape` is that of the weights. The largest weight of a group becomes 127, or 7. Nothing if a weight is
/// not finite.
std::optional<IntegerWeights> integer_weights(std::span<const float> weights,
                                              const std::vector<int64_t>& shape, ScaleGroups groups,
                                              int bits);
/// Two to a byte, the first in the low bits.
std::string packed_halves(std::span<const int8_t> values);
/// bias / scale as i32, with a scale for each element; nothing if one of them does not fit.
std::optional<std::vector<int32_t>> integer_bias(std::span<const float> bias, std::span<const float> scales);

} // namespace lathe::onnx
