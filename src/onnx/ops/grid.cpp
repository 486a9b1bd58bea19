#include "onnx/ops/grid.hpp"

#include "onnx/ops/interpolate.hpp"

namespace lathe::onnx {
namespace {

/// One element of each axis.
struct Corner {
  Tensor position, inside;
  std::optional<Tensor> weight;
};

std::optional<Tensor> product(const std::optional<Tensor>& a, const std::optional<Tensor>& b) {
  return a && b ? *a * *b : a ? a : b;
}

/// All that come about when each axis gives one of its taps.
std::vector<Corner> corners_of(const std::vector<GridAxis>& axes,
                               const std::vector<std::vector<GridTap>>& taps) {
  std::vector<Corner> corners;
  for (const GridTap& tap : taps[0])
    corners.push_back({tap.element.cast(DType::I64), axes[0].inside(tap.element), tap.weight});
  for (size_t i = 1; i < axes.size(); ++i) {
    std::vector<Corner> longer;
    for (const Corner& corner : corners)
      for (const GridTap& tap : taps[i])
        longer.push_back({corner.position * axes[i].size + tap.element.cast(DType::I64),
                          logical_and(corner.inside, axes[i].inside(tap.element)),
                          product(corner.weight, tap.weight)});
    corners = std::move(longer);
  }
  return corners;
}

} // namespace

Tensor GridAxis::denormalise(const Tensor& x) const {
  const auto n = static_cast<double>(size);
  return align_corners ? (x + 1.0) * ((n - 1) / 2) : (x + 1.0) * (n / 2) - 0.5;
}

Tensor GridAxis::element(const Tensor& place) const {
  const auto last = static_cast<double>(size - 1);
  if (padding == "border") return place.clamp(0, last);
  if (padding != "reflection") return place;
  const double low = align_corners ? 0 : -0.5, span = align_corners ? last : last + 1;
  if (span == 0) return Tensor::zeros(place.shape(), place.dtype());
  // There and back again: a saw tooth with the period of two spans.
  const Tensor distance = (place - low).abs();
  const Tensor phase = distance - (distance * (0.5 / span)).floor() * (2 * span);
  return (minimum(phase, 2 * span - phase) + low).clamp(0, last);
}

Tensor GridAxis::inside(const Tensor& element) const {
  return logical_and(element >= 0.0, element <= static_cast<double>(size - 1));
}

std::vector<GridTap> grid_taps(const GridAxis& axis, const Tensor& x, const std::string& mode) {
  constexpr double kCubicCoefficient = -0.75;
  if (mode == "nearest") return {{axis.element(x.round()), {}}};
  const Tensor base = x.floor(), fraction = x - base;
  if (mode == "linear") return {{axis.element(base), 1.0 - fraction}, {axis.element(base + 1.0), fraction}};
  const Tensor rest = 1.0 - fraction;
  return {{axis.element(base - 1.0), cubic_far(fraction + 1.0, kCubicCoefficient)},
          {axis.element(base), cubic_near(fraction, kCubicCoefficient)},
          {axis.element(base + 1.0), cubic_near(rest, kCubicCoefficient)},
          {axis.element(base + 2.0), cubic_far(rest + 1.0, kCubicCoefficient)}};
}

std::vector<GridAxis> grid_axes(const Call& call, const Tensor& images, bool align_corners,
                                const std::string& padding) {
  std::vector<GridAxis> axes;
  for (int axis = 2; axis < images.rank(); ++axis) {
    if (!images.size(axis).is_const())
      call.fail(ErrorKind::Shape,
                "input " + to_string(images.shape()) + ", expected fixed sizes of the image");
    axes.push_back({images.size(axis).value(), align_corners, padding});
  }
  return axes;
}

Tensor sample_images(const Tensor& images, const std::vector<GridAxis>& axes,
                     const std::vector<std::vector<GridTap>>& taps) {
  int64_t elements = 1;
  for (const GridAxis& axis : axes) elements *= axis.size;
  const Tensor flat = images.reshape({images.size(0), images.size(1), elements});
  std::optional<Tensor> sum;
  for (const Corner& corner : corners_of(axes, taps)) {
    // A position behind the image reads as 0.
    const Tensor index = where(corner.inside, corner.position, weak(elements, DType::I64)).unsqueeze(1);
    Tensor value = flat.gather(2, index.expand({images.size(0), images.size(1), index.size(2)}));
    if (corner.weight) value = value * corner.weight->cast(images.dtype()).unsqueeze(1);
    sum = sum ? *sum + value : value;
  }
  return *sum;
}

} // namespace lathe::onnx
