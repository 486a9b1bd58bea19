// Axes as ONNX writes them: negative ones count from the end.
#pragma once
#include <vector>

#include "lathe/onnx/op.hpp"

namespace lathe::onnx {

/// In [0, rank); Error(Axis) naming the node if the axis is not there.
int normalise_axis(const Call& call, int64_t axis, int rank);
/// The same for several, in their order; Error(Axis) for one that is there twice.
std::vector<int> normalise_axes(const Call& call, const std::vector<int64_t>& axes, int rank);
/// [first, rank).
Axes axes_from(int first, int rank);
/// The attribute `axis`.
int axis_attribute(const Call& call, int64_t otherwise, int rank);
/// The attribute `axes`, or all.
std::vector<int> axes_attribute(const Call& call, int rank);
/// The attribute `axes` before opset 13, an input since; nothing where the node has neither.
std::optional<std::vector<int64_t>> axes_operand(Call& call, size_t input);

} // namespace lathe::onnx
