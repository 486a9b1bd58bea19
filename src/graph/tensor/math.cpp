// Elementwise functions of one tensor, composed of the primitives. Integers are computed in the dtype that
// float_dtype() gives. Half precision is computed in f32 and rounded once.
//
// docs/numbers.md states the errors. exp, log and log10 take two steps here, which lose digits;
// ast/passes/math.cpp turns the two into one in f32. Each function that is not a primitive, or a single
// formula of primitives, is marked with its own derivative (function.hpp).
#include <cmath>
#include <limits>
#include <numbers>

#include "core/coefficients.hpp"
#include "graph/function.hpp"
#include "graph/narrow.hpp"
#include "graph/tensor_impl.hpp"

namespace lathe {
using namespace graph;
namespace {

void check_real(std::string_view op, const Tensor& x) {
  if (x.dtype() == DType::Bool) fail(ErrorKind::DType, "{}: dtype bool, expected a number", op);
}

Tensor constant_like(const Tensor& x, double value) { return number(value, x.dtype()); }
Tensor plus(const Tensor& x, double term) { return x + constant_like(x, term); }

Tensor float_unary(Op op, const Tensor& x) {
  return in_wide(x, [&](const Tensor& v) { return unary_op(op, v); });
}

/// x, with the lowest finite number for -infinity. Its product with a factor 0 is then 0 and not NaN.
Tensor above_minus_infinity(const Tensor& x) {
  const double least =
      x.dtype() == DType::F64 ? std::numeric_limits<double>::lowest() : std::numeric_limits<float>::lowest();
  return maximum(x, constant_like(x, least));
}

// e^x - 1. For small x it is the series, because the subtraction would cancel digits. The terms that the
// series leaves out are below the dtype's rounding.
Tensor expm1_wide(const Tensor& x) {
  const int terms = x.dtype() == DType::F64 ? 14 : 8;
  Tensor series = times_number(x, 1.0 / terms);
  for (int i = terms - 1; i >= 2; --i) series = times_number(x, 1.0 / i) * plus(series, 1);
  series = x * plus(series, 1);
  return where(x.abs() < constant_like(x, 0.35), series, plus(x.exp(), -1));
}

// e^-|x|, which never overflows.
Tensor exp_minus_abs(const Tensor& x) { return where(x < constant_like(x, 0), x, -x).exp(); }
// x / (1 + e^-u), computed from e^-|u|, so that far negative u keep their digits. x has to be finite where u
// is -infinity.
Tensor times_sigmoid(const Tensor& x, const Tensor& u) {
  const Tensor e = exp_minus_abs(u);
  return where(u < constant_like(u, 0), x * e, x) / plus(e, 1);
}

// tanh(x) = x + x z p(z), z = x^2, for small x; p is minimax in relative error up to 0.6.
Tensor tanh_f32(const Tensor& x) {
  const Tensor a = x.abs(), z = a * a, one = constant_like(x, 1);
  const Tensor small = a + a * z * horner(z, coefficients::kTanh);
  const Tensor large = one - constant_like(x, 2) / plus((a + a).exp(), 1);
  const Tensor y = where(a < constant_like(x, 0.6), small, large);
  return where(x < constant_like(x, 0), -y, y);
}

// t + by where `condition` holds, else t. floor and ceil correct the truncation t so.
Tensor step_where(const Tensor& condition, const Tensor& t, double by) {
  return where(condition, plus(t, by), t);
}

} // namespace

Tensor Tensor::neg() const {
  check_real("neg", *this);
  return unary_op(Op::Neg, *this);
}

Tensor Tensor::abs() const {
  if (dtype() == DType::Bool || is_unsigned(dtype())) return *this;
  const Tensor zero = zeros({}, dtype());
  if (!is_float(dtype())) return lathe::where(zero < *this, *this, neg());
  // 0 - x and not -x, so that -0 gives +0.
  return with_derivative("abs", lathe::where(zero < *this, *this, zero - *this), {*this});
}

Tensor Tensor::sign() const {
  check_real("sign", *this);
  const Tensor zero = zeros({}, dtype()), one = ones({}, dtype());
  const Tensor positive = lathe::where(zero < *this, one, *this); // zeros and NaN stay
  if (is_unsigned(dtype())) return positive;
  const Tensor value = lathe::where(*this < zero, Tensor::full({}, Scalar::of_int(dtype(), -1)), positive);
  return is_float(dtype()) ? without_derivative(value) : value;
}

Tensor Tensor::square() const { return *this * *this; }
Tensor Tensor::sqrt() const { return float_unary(Op::Sqrt, *this); }
Tensor Tensor::reciprocal() const {
  return in_wide(*this, [](const Tensor& x) { return constant_like(x, 1) / x; });
}
Tensor Tensor::exp2() const { return float_unary(Op::Exp2, *this); }
Tensor Tensor::log2() const { return float_unary(Op::Log2, *this); }
Tensor Tensor::sin() const { return float_unary(Op::Sin, *this); }

Tensor Tensor::rsqrt() const {
  return in_wide(*this, [](const Tensor& x) { return x.sqrt().reciprocal(); });
}
Tensor Tensor::exp() const {
  return marked("exp", *this, [](const Tensor& x) { return times_number(x, std::numbers::log2e).exp2(); });
}
Tensor Tensor::log() const {
  return marked("log", *this, [](const Tensor& x) { return times_number(x.log2(), std::numbers::ln2); });
}
Tensor Tensor::log10() const {
  return marked("log10", *this, [](const Tensor& x) {
    return times_number(x.log2(), std::numbers::ln2 / std::numbers::ln10);
  });
}
Tensor Tensor::log1p() const {
  // With u = 1 + x rounded, log(u) * x / (u - 1) corrects for the rounding (Kahan).
  return marked("log1p", *this, [](const Tensor& x) {
    const Tensor u = plus(x, 1), one = constant_like(x, 1);
    const Tensor as_is = (u == one) | (u == constant_like(x, kInfinity));
    return where(as_is, x, u.log() * (x / plus(u, -1)));
  });
}
Tensor Tensor::expm1() const { return marked("expm1", *this, expm1_wide); }

Tensor Tensor::cos() const { return float_unary(Op::Cos, *this); }
Tensor Tensor::tan() const {
  return marked("tan", *this, [](const Tensor& x) { return x.sin() / x.cos(); });
}
Tensor Tensor::sinh() const {
  return marked("sinh", *this, [](const Tensor& x) {
    const Tensor a = x.abs(), e = expm1_wide(a);
    // (e + e / (e + 1)) / 2 keeps small values; e^a is the square of e^(a/2), which overflows later.
    const Tensor small = times_number(e + e / plus(e, 1), 0.5), root = times_number(a, 0.5).exp();
    const Tensor value = where(a < constant_like(x, 1), small,
                               times_number(root, 0.5) * root - constant_like(x, 0.5) / root / root);
    return where(x < constant_like(x, 0), -value, where(x == constant_like(x, 0), x, value));
  });
}
Tensor Tensor::cosh() const {
  return marked("cosh", *this, [](const Tensor& x) {
    const Tensor root = times_number(x.abs(), 0.5).exp(); // its square overflows later than e^|x|
    return times_number(root, 0.5) * root + constant_like(x, 0.5) / root / root;
  });
}
Tensor Tensor::tanh() const {
  return marked("tanh", *this, [](const Tensor& x) {
    if (x.dtype() == DType::F32) return tanh_f32(x);
    const Tensor e = expm1_wide(times_number(x.abs(), -2)); // in (-1, 0]
    const Tensor t = e / plus(e, 2);                        // -tanh(|x|)
    return where(x < constant_like(x, 0), t, -t);
  });
}

Tensor Tensor::trunc() const { return is_float(dtype()) ? float_unary(Op::Trunc, *this) : *this; }
Tensor Tensor::floor() const {
  if (!is_float(dtype())) return *this;
  return in_wide(*this, [](const Tensor& x) {
    const Tensor t = x.trunc();
    return step_where(x < t, t, -1);
  });
}
Tensor Tensor::ceil() const {
  if (!is_float(dtype())) return *this;
  return in_wide(*this, [](const Tensor& x) {
    const Tensor t = x.trunc();
    return step_where(t < x, t, 1);
  });
}
Tensor Tensor::round() const {
  if (!is_float(dtype())) return *this;
  return in_wide(*this, [](const Tensor& x) {
    const Tensor t = x.trunc(), half_t = times_number(t, 0.5);
    const Tensor distance = (x - t).abs(), half = constant_like(x, 0.5);
    const Tensor odd = half_t.trunc() != half_t;
    const Tensor away = (half < distance) | ((distance == half) & odd);
    return where(away, where(x < constant_like(x, 0), plus(t, -1), plus(t, 1)), t);
  });
}

Tensor Tensor::relu() const {
  check_real("relu", *this);
  const Tensor value = maximum(*this, zeros({}, dtype()));
  return is_float(dtype()) ? with_derivative("relu", value, {*this}) : value;
}
Tensor Tensor::leaky_relu(double slope) const {
  return marked(
      "leaky_relu", *this,
      [&](const Tensor& x) { return where(x < constant_like(x, 0), times_number(x, slope), x); }, slope);
}
Tensor Tensor::elu(double alpha) const {
  return marked(
      "elu", *this,
      [&](const Tensor& x) { return where(x < constant_like(x, 0), times_number(expm1_wide(x), alpha), x); },
      alpha);
}
Tensor Tensor::sigmoid() const {
  return marked("sigmoid", *this, [](const Tensor& x) { return times_sigmoid(constant_like(x, 1), x); });
}
Tensor Tensor::silu() const {
  return marked("silu", *this, [](const Tensor& x) { return times_sigmoid(above_minus_infinity(x), x); });
}
Tensor Tensor::softplus() const {
  return marked("softplus", *this, [](const Tensor& x) { return x.relu() + exp_minus_abs(x).log1p(); });
}
Tensor Tensor::hardswish() const {
  return marked("hardswish", *this, [](const Tensor& x) {
    return above_minus_infinity(x) * times_number(plus(x, 3).clamp(0, 6), 1.0 / 6);
  });
}
Tensor Tensor::gelu(Flag tanh_approximation) const {
  if (!tanh_approximation)
    return marked("gelu", *this, [](const Tensor& x) {
      const Tensor twice = plus(times_number(x, std::numbers::sqrt2 / 2).erf(), 1);
      return times_number(above_minus_infinity(x), 0.5) * twice;
    });
  return marked("gelu_tanh", *this, [](const Tensor& x) {
    // x / 2 * (1 + tanh(u / 2)) is x / (1 + e^-u).
    const double scale = -2 * std::sqrt(2 / std::numbers::pi);
    const Tensor v = x * plus(times_number(x * x, 0.044715 * scale), scale);
    return above_minus_infinity(x) / plus(v.exp(), 1);
  });
}

Tensor Tensor::isnan() const { return is_float(dtype()) ? *this != *this : full(shape(), false); }
Tensor Tensor::isinf() const {
  return is_float(dtype()) ? abs() == number(kInfinity, dtype()) : full(shape(), false);
}
Tensor Tensor::isfinite() const {
  return is_float(dtype()) ? abs() < number(kInfinity, dtype()) : full(shape(), true);
}
Tensor Tensor::logical_not() const {
  return binary_op("logical_not", Op::Xor, cast(DType::Bool), full({}, true));
}
Tensor Tensor::bitwise_not() const {
  if (is_float(dtype()))
    fail(ErrorKind::DType, "bitwise_not: dtype {}, expected an integer or bool", to_string(dtype()));
  return binary_op("bitwise_not", Op::Xor, *this, full({}, Scalar::of_int(dtype(), -1)));
}

Tensor Tensor::clamp(std::optional<double> low, std::optional<double> high) const {
  check_real("clamp", *this);
  if (!low && !high) fail(ErrorKind::Value, "clamp: no bounds, expected at least one");
  if ((low && std::isnan(*low)) || (high && std::isnan(*high)))
    fail(ErrorKind::Value, "clamp: a bound is NaN, expected a number");
  if (low && high && *low > *high)
    fail(ErrorKind::Value, "clamp: bounds {} and {}, expected the lower one first", *low, *high);
  // Bounds that an integer dtype can't hold saturate, and so bound nothing.
  Tensor result = *this;
  if (low) result = maximum(result, number(is_float(dtype()) ? *low : std::ceil(*low), dtype()));
  if (high) result = minimum(result, number(is_float(dtype()) ? *high : std::floor(*high), dtype()));
  return result;
}

Tensor Tensor::cast(DType to) const { return cast(to, NarrowCast{}); }
Tensor Tensor::cast(DType to, NarrowCast how) const {
  if (to == dtype()) return *this;
  if (is_narrow(to) || is_narrow(dtype())) return narrow_cast(*this, to, how);
  return wrap(graph::cast(node_of(*this), to));
}
Tensor Tensor::bitcast(DType to) const {
  if (bits_of(to) != bits_of(dtype()) || ((to == DType::Bool) != (dtype() == DType::Bool)))
    fail(ErrorKind::DType, "bitcast: {} to {}, expected dtypes of the same width other than bool",
         to_string(dtype()), to_string(to));
  if (!is_narrow(to) && !is_narrow(dtype())) return wrap(graph::bitcast(node_of(*this), to));
  const Tensor codes = is_narrow(dtype()) ? codes_of(*this) : bitcast(DType::U8);
  return is_narrow(to) ? of_codes(to, codes) : codes.bitcast(to);
}
Tensor Tensor::contiguous() const {
  return on_codes(*this, [](const Tensor& x) { return wrap(graph::contiguous(node_of(x))); });
}

} // namespace lathe
