#include "onnx/quantise/weights.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace lathe::onnx {
namespace {

/// The position of each weight's scale.
struct Layout {
  int64_t size = 1, inner = 1; // elements along the axis, and of the axes behind it
  int64_t block = 0, blocks = 1;
  bool is_one = true; // one scale for all

  Layout(const std::vector<int64_t>& shape, ScaleGroups groups) : block(groups.block) {
    if (groups.axis < 0) return;
    const auto axis = static_cast<size_t>(groups.axis);
    is_one = false;
    size = shape[axis];
    for (size_t k = axis + 1; k < shape.size(); ++k) inner *= shape[k];
    if (block > 0) blocks = (size + block - 1) / block;
  }

  size_t scale_of(size_t element) const {
    if (is_one) return 0;
    const auto at = static_cast<int64_t>(element);
    const int64_t place = at / inner % size;
    if (block == 0) return static_cast<size_t>(place);
    return static_cast<size_t>((at / inner / size * blocks + place / block) * inner + at % inner);
  }
};

std::vector<int64_t> scale_shape(const std::vector<int64_t>& shape, ScaleGroups groups,
                                 const Layout& layout) {
  if (groups.axis < 0) return {};
  if (groups.block == 0) return {layout.size};
  std::vector<int64_t> sizes = shape;
  sizes[static_cast<size_t>(groups.axis)] = layout.blocks;
  return sizes;
}

} // namespace

std::optional<IntegerWeights> integer_weights(std::span<const float> weights,
                                              const std::vector<int64_t>& shape, ScaleGroups groups,
                                              int bits) {
  const Layout layout(shape, groups);
  IntegerWeights made;
  made.scale_shape = scale_shape(shape, groups, layout);
  size_t count = 1;
  for (const int64_t size : made.scale_shape) count *= static_cast<size_t>(size);
  const double most = bits == 4 ? 7 : 127;
  made.scales.resize(count);
  for (size_t k = 0; k < weights.size(); ++k) {
    if (!std::isfinite(weights[k])) return {};
    float& largest = made.scales[layout.scale_of(k)];
    largest = std::max(largest, std::abs(weights[k]));
  }
  // Of zeros any scale will do. A subnormal one would not survive where those are flushed to 0.
  for (float& scale : made.scales)
    scale = scale == 0 ? 1 : std::max(static_cast<float>(scale / most), std::numeric_limits<float>::min());
  double changed = 0, all = 0;
  made.values.reserve(weights.size());
  for (size_t k = 0; k < weights.size(); ++k) {
    const double weight = weights[k], scale = made.scales[layout.scale_of(k)];
    const double code = std::clamp(std::nearbyint(weight / scale), -most, most);
    made.values.push_back(static_cast<int8_t>(code));
    changed += (code * scale - weight) * (code * scale - weight), all += weight * weight;
  }
  made.error = all == 0 ? 0 : std::sqrt(changed / all);
  return made;
}

std::string packed_halves(std::span<const int8_t> values) {
  std::string bytes((values.size() + 1) / 2, '\0');
  for (size_t k = 0; k < values.size(); ++k)
    bytes[k / 2] = static_cast<char>(bytes[k / 2] | (values[k] & 15) << (k % 2 * 4));
  return bytes;
}

std::optional<std::vector<int32_t>> integer_bias(std::span<const float> bias, std::span<const float> scales) {
  std::vector<int32_t> codes;
  for (size_t k = 0; k < bias.size(); ++k) {
    const double code = std::nearbyint(static_cast<double>(bias[k]) / scales[k]);
    if (!(std::abs(code) <= std::numeric_limits<int32_t>::max())) return {};
    codes.push_back(static_cast<int32_t>(code));
  }
  return codes;
}

} // namespace lathe::onnx
