// How Resize takes elements between others, of axes whose sizes are known and of others.
#pragma once
#include <optional>
#include <string>

#include "lathe/onnx/op.hpp"

namespace lathe::onnx {

struct ResizeSettings {
  std::string mode, coordinates, nearest;
  double cubic_coefficient = -0.75, extrapolation = 0;
  bool exclude_outside = false, antialias = false;
};

/// A nearest_mode: Resize of opset 10 left open which element is the nearest; ONNX's tests and ONNX Runtime
/// take the next one where an axis shrinks.
inline constexpr const char* kNextWhereSmaller = "next where smaller";

/// What becomes of one axis of any size.
struct OpenAxis {
  Expr in, out;
  std::optional<double> scale; // nothing: that of the sizes
};
/// The size of an axis that is `scale` times as large, rounded down; nothing where that can't be told of all
/// sizes.
std::optional<Expr> scaled_size(Expr size, double scale);
/// Resizes one axis. Error(Shape) for settings that need known sizes.
Tensor resize_open_axis(const Call& call, const Tensor& x, int axis, const OpenAxis& a,
                        const ResizeSettings& settings);

} // namespace lathe::onnx
