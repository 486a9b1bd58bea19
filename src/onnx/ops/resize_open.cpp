// Resize of axes whose sizes come with the calls: where an element lies in the input is computed as for sizes
// that are known, in doubles, so that both give the same numbers.
#include <cmath>

#include "onnx/ops/resize.hpp"

namespace lathe::onnx {
namespace {

Tensor real(double value) { return Tensor::full({}, Scalar::of_float(DType::F64, value)); }
Tensor real(Expr size) { return Tensor::scalar(size).cast(DType::F64); }

[[noreturn]] void fail_open(const Call& call, const OpenAxis& a, const std::string& what) {
  call.fail(ErrorKind::Shape,
            "an axis of size " + to_string(a.in) + ", expected a fixed size to resize " + what);
}

/// Where the output's elements lie in the input, [out].
Tensor coordinates_of(const Call& call, const OpenAxis& a, const std::string& how) {
  const Tensor x = Tensor::iota({a.out}, 0).cast(DType::F64),
               scale = a.scale ? real(*a.scale) : real(a.out) / real(a.in);
  const auto unless_single = [&](const Tensor& coordinate) {
    return a.out.lo() > 1 ? coordinate : where(real(a.out) > real(1), coordinate, real(0));
  };
  if (how == "half_pixel") return (x + real(0.5)) / scale - real(0.5);
  if (how == "pytorch_half_pixel") return unless_single((x + real(0.5)) / scale - real(0.5));
  if (how == "asymmetric") return x / scale;
  if (how == "tf_half_pixel_for_nn") return (x + real(0.5)) / scale;
  if (how == "align_corners")
    return unless_single(x * (real(a.in) - real(1)) / (scale * real(a.in) - real(1)));
  fail_open(call, a, "with coordinates " + how);
}

Tensor nearest(const Call& call, const OpenAxis& a, const std::string& how, const Tensor& x) {
  if (how == kNextWhereSmaller) {
    if (!a.scale) fail_open(call, a, "so");
    return *a.scale < 1 ? x.ceil() : x.floor();
  }
  if (how == "round_prefer_floor") return (x - real(0.5)).ceil();
  if (how == "round_prefer_ceil") return (x + real(0.5)).floor();
  if (how == "floor") return x.floor();
  if (how == "ceil") return x.ceil();
  call.fail(ErrorKind::Value,
            "nearest_mode " + how + ", expected round_prefer_floor, round_prefer_ceil, floor or ceil");
}

Tensor within(const Tensor& place, const OpenAxis& a) {
  return minimum(maximum(place, real(0)), real(a.in) - real(1)).cast(DType::I64);
}

/// How often each element is repeated, where nothing else becomes of the axis.
std::optional<int64_t> repeats_of(const OpenAxis& a, const ResizeSettings& settings) {
  if (settings.mode != "nearest" || !a.scale || *a.scale < 1 || *a.scale != std::floor(*a.scale)) return {};
  const std::string &where = settings.coordinates, &how = settings.nearest;
  const bool to_middle = where == "half_pixel" && (how == "round_prefer_floor" || how == "round_prefer_ceil");
  const bool to_begin = where == "asymmetric" && (how == "floor" || how == kNextWhereSmaller);
  return to_middle || to_begin ? std::optional(static_cast<int64_t>(*a.scale)) : std::nullopt;
}

Tensor repeated(const Tensor& x, int axis, int64_t times) {
  Shape apart = x.shape(), joined = x.shape();
  apart.insert(apart.begin() + axis + 1, Expr(1));
  Shape spread = apart;
  spread[static_cast<size_t>(axis) + 1] = times;
  joined[static_cast<size_t>(axis)] = joined[static_cast<size_t>(axis)] * times;
  return x.reshape(apart).expand(spread).reshape(joined);
}

/// Between the two elements beside each place, by the distance.
Tensor between_two(const Tensor& x, int axis, const OpenAxis& a, const Tensor& coordinates) {
  Shape along(x.shape().size(), Expr(1));
  along[static_cast<size_t>(axis)] = a.out;
  const Tensor base = coordinates.floor();
  const auto tap = [&](double offset) {
    const Tensor place = base + real(offset);
    const Tensor weight =
        maximum(real(1) - (coordinates - place).abs(), real(0)).cast(DType::F32).contiguous();
    return x.take(within(place, a).contiguous(), axis) * weight.reshape(along).cast(x.dtype());
  };
  return tap(0) + tap(1);
}

} // namespace

std::optional<Expr> scaled_size(Expr size, double scale) {
  constexpr int64_t kParts = 256; // numbers of so many parts are exact in single precision, times any size
  const double parts = scale * static_cast<double>(kParts);
  if (parts != std::floor(parts) || parts < 1 || scale > static_cast<double>(kParts)) return {};
  return floordiv(size * static_cast<int64_t>(parts), kParts);
}

Tensor resize_open_axis(const Call& call, const Tensor& x, int axis, const OpenAxis& a,
                        const ResizeSettings& settings) {
  if (a.in.lo() < 1 || a.out.lo() < 1) fail_open(call, a, "to " + to_string(a.out));
  if (const auto times = repeats_of(a, settings)) return repeated(x, axis, *times);
  if (settings.exclude_outside || settings.antialias || settings.mode == "cubic")
    fail_open(call, a, "by mode " + settings.mode);
  const Tensor coordinates = coordinates_of(call, a, settings.coordinates);
  if (settings.mode == "nearest")
    return x.take(within(nearest(call, a, settings.nearest, coordinates), a).contiguous(), axis);
  return between_two(x, axis, a, coordinates.contiguous());
}

} // namespace lathe::onnx
