// The inverse trigonometric and hyperbolic functions, atan2 and hypot.
//
// Each of three polynomials p stands for one function f near 0: f(t) = t + t z p(z), where z = t^2. It is
// minimax in the relative error of f.
//   atan    t in [0, 1]    error 4e-9 in f32, 2e-17 in f64
//   asin    t in [0, 1/2]  error 5e-9 in f32, 1.5e-17 in f64
//   atanh   t in [0, 1/2]  error 2e-9 in f32, 7e-18 in f64
// The other arguments are brought there, or go to the logarithm, where it does not cancel digits. Signs are
// taken off first and put back as bits, so that zeros keep theirs.
#include <cmath>
#include <numbers>

#include "core/coefficients.hpp"
#include "graph/function.hpp"
#include "graph/tensor_impl.hpp"
#include "lathe/functions.hpp"

namespace lathe {
using namespace graph;
namespace {

struct Polynomial {
  std::span<const double> f32, f64; // lowest power first
};

constexpr Polynomial kAtan{coefficients::kAtan32, coefficients::kAtan64},
    kAsin{coefficients::kAsin32, coefficients::kAsin64},
    kAtanh{coefficients::kAtanh32, coefficients::kAtanh64};

/// f(t) of the function near 0 that `p` stands for.
Tensor by_polynomial(const Polynomial& p, const Tensor& t) {
  const Tensor z = t * t;
  return t + t * (z * horner(z, t.dtype() == DType::F64 ? p.f64 : p.f32));
}

// ---- signs, as bits ----

DType bits_dtype_of(DType d) { return d == DType::F64 ? DType::I64 : DType::I32; }
/// Whether the sign bit of x is set, that of -0 included.
Tensor has_sign(const Tensor& x) {
  const DType bits = bits_dtype_of(x.dtype());
  return x.bitcast(bits) < Tensor::zeros({}, bits);
}
/// `size`, which has no sign, with the sign of x.
Tensor with_sign_of(const Tensor& x, const Tensor& size) {
  const DType bits = bits_dtype_of(x.dtype());
  const Tensor sign = Tensor::full({}, Scalar::of_int(bits, bits == DType::I64 ? INT64_MIN : INT32_MIN));
  return (size.bitcast(bits) | (x.bitcast(bits) & sign)).bitcast(x.dtype());
}

// ---- angles ----

/// `count` right angles plus x. The right angle is held in two numbers.
Tensor plus_right_angles(const Tensor& count, const Tensor& x) {
  const DType d = x.dtype();
  constexpr long double kRightAngle = std::numbers::pi_v<long double> / 2;
  const double upper = d == DType::F64 ? static_cast<double>(kRightAngle) : static_cast<float>(kRightAngle);
  const Tensor lower = number(static_cast<double>(kRightAngle - upper), d);
  return count * number(upper, d) + (x + count * lower);
}

/// The angle of the point (x, y). The quotient of the shorter side by the longer one gives the angle to the
/// nearest axis. If both sides are 0 or infinite, there is no quotient: C takes 0 and 1.
Tensor angle(const Tensor& y, const Tensor& x) {
  const DType d = x.dtype();
  const Tensor height = y.abs(), width = x.abs(), zero = number(0, d), one = number(1, d);
  const Tensor steep = width < height, is_left = has_sign(x);
  const Tensor shorter = where(steep, width, height), longer = where(steep, height, width);
  const Tensor equal = where(longer == zero, zero, one);
  const Tensor to_axis = by_polynomial(kAtan, where(shorter == longer, equal, shorter / longer));
  const Tensor count = where(steep, one, where(is_left, number(2, d), zero));
  return with_sign_of(y, plus_right_angles(count, where(steep == is_left, to_axis, -to_axis)));
}

/// asin(|x|) up to 1/2. From there it is asin(sqrt((1 - |x|) / 2)), which is half of acos(|x|).
struct Sine {
  Tensor is_small, value;
};
Sine inverse_sine(const Tensor& x) {
  const DType d = x.dtype();
  const Tensor a = x.abs(), half = number(0.5, d), is_small = a < half;
  const Tensor root = ((number(1, d) - a) * half).sqrt();
  return {is_small, by_polynomial(kAsin, where(is_small, a, root))};
}

Tensor asin_wide(const Tensor& x) {
  const DType d = x.dtype();
  const auto [is_small, value] = inverse_sine(x);
  const Tensor large = plus_right_angles(number(1, d), number(-2, d) * value);
  return with_sign_of(x, where(is_small, value, large));
}

Tensor acos_wide(const Tensor& x) {
  const DType d = x.dtype();
  const auto [is_small, value] = inverse_sine(x);
  const Tensor is_negative = x < number(0, d), zero = number(0, d), one = number(1, d);
  const Tensor part = where(is_small, value, number(2, d) * value);
  const Tensor count = where(is_small, one, where(is_negative, number(2, d), zero));
  return plus_right_angles(count, where(is_negative == is_small, part, -part));
}

// ---- hyperbolic functions ----

/// log(x + root), where root is the square root of x^2 + 1 or x^2 - 1. The sum overflows before its logarithm
/// does, so the logarithm of a large x is taken alone.
Tensor log_of_sum(const Tensor& x, const Tensor& root) {
  const DType d = x.dtype();
  const Tensor is_large = number(0x1p30, d) < x; // root is x here, to the last digit
  const Tensor sum = where(is_large, x, x + root).log();
  return where(is_large, sum + number(std::numbers::ln2, d), sum);
}

// With y = asinh(a): e^y = a + sqrt(a^2 + 1), and tanh y = a / sqrt(a^2 + 1), which is less than 1/2 here.
Tensor asinh_wide(const Tensor& x) {
  const DType d = x.dtype();
  const Tensor a = x.abs(), root = (a * a + number(1, d)).sqrt();
  const Tensor y = where(a < number(0.57, d), by_polynomial(kAtanh, a / root), log_of_sum(a, root));
  return with_sign_of(x, y);
}

// With y = acosh(x): e^y = x + sqrt(x^2 - 1), and tanh y = sqrt(x^2 - 1) / x, which is less than 1/2 here.
// u = x - 1 is exact near 1, where x^2 - 1 would cancel digits: it is u^2 + 2u.
Tensor acosh_wide(const Tensor& x) {
  const DType d = x.dtype();
  const Tensor one = number(1, d), u = x - one, root = (u * u + (u + u)).sqrt();
  const Tensor y = where(x < number(1.15, d), by_polynomial(kAtanh, root / x), log_of_sum(x, root));
  return where(x < one, number(std::nan(""), d), y);
}

Tensor atanh_wide(const Tensor& x) {
  const DType d = x.dtype();
  const Tensor a = x.abs(), half = number(0.5, d), one = number(1, d);
  const Tensor large = half * ((one + a) / (one - a)).log();
  return with_sign_of(x, where(a < half, by_polynomial(kAtanh, a), large));
}

// ---- hypot ----

/// Arguments whose squares would overflow or lose digits are scaled by a power of two, which rounds nothing.
Tensor length(const Tensor& a, const Tensor& b) {
  const DType d = a.dtype();
  const int limit = d == DType::F64 ? 500 : 50, shift = d == DType::F64 ? 700 : 100;
  const Tensor up = number(std::ldexp(1.0, shift), d), down = number(std::ldexp(1.0, -shift), d);
  const Tensor one = number(1, d), infinite = number(kInfinity, d);
  const Tensor p = a.abs(), q = b.abs(), longer = maximum(p, q);
  const Tensor is_large = number(std::ldexp(1.0, limit), d) < longer;
  const Tensor is_small = longer < number(std::ldexp(1.0, -limit), d);
  const Tensor factor = where(is_large, down, where(is_small, up, one));
  const Tensor inverse = where(is_large, up, where(is_small, down, one));
  const Tensor u = a * factor, v = b * factor;
  const Tensor value = (u * u + v * v).sqrt() * inverse;
  return where((p == infinite) | (q == infinite), infinite, value);
}

/// marked() of two numbers.
template <class F> Tensor marked_pair(std::string_view name, const Tensor& a, const Tensor& b, F&& f) {
  const auto [x, y] = match(name, a, b);
  const DType d = float_dtype(x.dtype());
  const Tensor u = x.cast(wide(d)), v = y.cast(wide(d));
  return with_derivative(name, f(u, v), {u, v}).cast(d);
}

} // namespace

Tensor Tensor::asin() const { return marked("asin", *this, asin_wide); }
Tensor Tensor::acos() const { return marked("acos", *this, acos_wide); }
Tensor Tensor::atan() const {
  return marked("atan", *this, [](const Tensor& x) { return angle(x, number(1, x.dtype())); });
}
Tensor Tensor::asinh() const { return marked("asinh", *this, asinh_wide); }
Tensor Tensor::acosh() const { return marked("acosh", *this, acosh_wide); }
Tensor Tensor::atanh() const { return marked("atanh", *this, atanh_wide); }

Tensor atan2(const Tensor& y, const Tensor& x) { return marked_pair("atan2", y, x, angle); }
Tensor hypot(const Tensor& a, const Tensor& b) { return marked_pair("hypot", a, b, length); }

} // namespace lathe
