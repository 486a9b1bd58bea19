#include "onnx/ops/attributes.hpp"

#include <algorithm>

namespace lathe::onnx {

int normalise_axis(const Call& call, int64_t axis, int rank) {
  if (axis < -rank || axis >= rank)
    call.fail(ErrorKind::Axis, "axis " + std::to_string(axis) + " of " + std::to_string(rank) +
                                   " axes, expected one in [" + std::to_string(-rank) + ", " +
                                   std::to_string(rank) + ")");
  return static_cast<int>(axis < 0 ? axis + rank : axis);
}

std::vector<int> normalise_axes(const Call& call, const std::vector<int64_t>& axes, int rank) {
  std::vector<int> result;
  for (int64_t axis : axes) {
    const int which = normalise_axis(call, axis, rank);
    if (std::find(result.begin(), result.end(), which) != result.end())
      call.fail(ErrorKind::Axis, "axis " + std::to_string(which) + " twice, expected distinct axes");
    result.push_back(which);
  }
  return result;
}

Axes axes_from(int first, int rank) {
  Axes axes;
  for (int axis = first; axis < rank; ++axis) axes.push_back(axis);
  return axes;
}

int axis_attribute(const Call& call, int64_t otherwise, int rank) {
  return normalise_axis(call, call.integer("axis", otherwise), rank);
}

std::vector<int> axes_attribute(const Call& call, int rank) {
  if (call.has_attribute("axes")) return normalise_axes(call, call.integers("axes"), rank);
  return axes_from(0, rank);
}

std::optional<std::vector<int64_t>> axes_operand(Call& call, size_t input) {
  if (call.has_attribute("axes")) return call.integers("axes");
  if (call.has(input)) return call.integers(input);
  return std::nullopt;
}

} // namespace lathe::onnx
