#include "onnx/ops/inverse_functions.hpp"

#include <numbers>

#include "onnx/ops/broadcast.hpp"

namespace lathe::onnx {
namespace {

/// tan(a / 2) from tan(a), |a| <= pi/4.
Tensor tangent_of_half(const Tensor& t) { return t / (1.0 + (1.0 + t * t).sqrt()); }

/// Of |t| <= 1. A quarter of the angle has |tan| < 0.2, where the Maclaurin series is short.
Tensor atan_within_one(const Tensor& t) {
  const Tensor quarter = tangent_of_half(tangent_of_half(t)), z = quarter * quarter;
  const int terms = t.dtype() == DType::F64 ? 12 : 6;
  Tensor series = weak(1.0 / (2 * terms - 1) * (terms % 2 ? 1 : -1), t.dtype());
  for (int i = terms - 1; i >= 1; --i) series = series * z + (i % 2 ? 1.0 : -1.0) / (2 * i - 1);
  return 4.0 * (quarter * series);
}

Tensor atan_of(const Tensor& x) {
  const Tensor outside = x.abs() > 1.0;
  // Each branch has numbers that it can differentiate, also where it is not taken.
  const Tensor inverse = where(outside, x, weak(1.0, x.dtype())).reciprocal();
  const Tensor angle = atan_within_one(where(outside, inverse, x));
  const double right_angle = std::numbers::pi / 2;
  const Tensor limit = where(x < 0.0, weak(-right_angle, x.dtype()), weak(right_angle, x.dtype()));
  return where(outside, limit - angle, angle);
}

/// From here on the square of x would overflow, or x^2 + 1 is x^2.
constexpr double kLarge = 0x1p40;

/// f of |x| with the sign of x, also of -0. f has to be odd, and to have the slope 1 at 0.
template <class Function> Tensor odd(const Tensor& x, Function&& f) {
  const Tensor negative = x < 0.0, y = f(where(negative, -x, x));
  return where(x == 0.0, x, where(negative, -y, y));
}

/// Where x is large, large(x), else small(x). Each is given numbers that it can differentiate, also where it
/// is not taken.
template <class Large, class Small> Tensor by_size(const Tensor& x, Large&& large, Small&& small) {
  const Tensor is_large = x > kLarge;
  return where(is_large, large(where(is_large, x, weak(kLarge, x.dtype()))),
               small(where(is_large, weak(2.0, x.dtype()), x)));
}

Tensor log_of_double(const Tensor& x) { return x.log() + std::numbers::ln2; }

} // namespace

Tensor atan(const Tensor& x) { return in_single(x, atan_of); }

Tensor asin(const Tensor& x) {
  return in_single(x, [](const Tensor& v) {
    const Tensor cosine = ((1.0 - v) * (1.0 + v)).sqrt();
    return 2.0 * atan_within_one(v / (1.0 + cosine));
  });
}

Tensor acos(const Tensor& x) {
  return in_single(x, [](const Tensor& v) { return 2.0 * atan_of(((1.0 - v) / (1.0 + v)).sqrt()); });
}

Tensor asinh(const Tensor& x) {
  return in_single(x, [](const Tensor& v) {
    return odd(v, [](const Tensor& a) {
      return by_size(a, log_of_double, [](const Tensor& t) {
        const Tensor square = t * t;
        return (t + square / (1.0 + (1.0 + square).sqrt())).log1p();
      });
    });
  });
}

Tensor acosh(const Tensor& x) {
  return in_single(x, [](const Tensor& v) {
    return by_size(v, log_of_double, [](const Tensor& t) {
      const Tensor above = t - 1.0;
      return (above + above.sqrt() * (t + 1.0).sqrt()).log1p();
    });
  });
}

Tensor atanh(const Tensor& x) {
  return in_single(x, [](const Tensor& v) {
    return odd(v, [](const Tensor& a) { return 0.5 * (2.0 * a / (1.0 - a)).log1p(); });
  });
}

} // namespace lathe::onnx
