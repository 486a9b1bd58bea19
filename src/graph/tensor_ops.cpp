// Operators and the other elementwise functions of two or three tensors.
#include <cmath>

#include "graph/tensor_impl.hpp"

namespace lathe {
using namespace graph;
namespace {

Tensor invert(const Tensor& bools) {
  return binary_op("logical_not", Op::Xor, bools, Tensor::full({}, true));
}
Tensor truth(const Tensor& t) { return t.cast(DType::Bool); }

// The remainder with the sign of the divisor, of floats of one dtype. The quotient is rounded, so that the
// remainder may come out as one divisor too many or too few.
Tensor float_mod(const Tensor& a, const Tensor& b) {
  const Tensor zero = number(0, a.dtype());
  const Tensor r = a - (a / b).floor() * b;
  const Tensor wrong_sign = logical_and(r != zero, (r < zero) != (b < zero));
  const Tensor fixed = where(wrong_sign, r + b, r);
  return where(fixed.abs() < b.abs(), fixed, fixed - b);
}

void check_numbers(std::string_view op, const Tensor& a, const Tensor& b) {
  if (a.dtype() == DType::Bool && b.dtype() == DType::Bool)
    fail(ErrorKind::DType, "{}: dtypes bool and bool, expected numbers", op);
}

Tensor int_pow(Tensor base, const Tensor& exponent) {
  const DType dtype = base.dtype();
  const Tensor one = Tensor::full(base.shape(), Scalar::of_int(dtype, 1)), zero = Tensor::zeros({}, dtype);
  Tensor result = one;
  // Square and multiply. A negative exponent leaves the inverse rounded towards zero: 0 but for bases 1 and
  // -1.
  const int bits = size_of(dtype) * 8 - (is_signed(dtype) ? 1 : 0);
  for (int i = 0; i < bits; ++i) {
    const Tensor bit =
        exponent & Tensor::full({}, Scalar::of_int(dtype, static_cast<int64_t>(uint64_t{1} << i)));
    result = where(bit != zero, result * base, result);
    if (i + 1 < bits) base = base * base;
  }
  return result;
}

Tensor constant_pow(const Tensor& base, int64_t exponent) {
  const uint64_t magnitude = static_cast<uint64_t>(exponent < 0 ? -exponent : exponent);
  std::optional<Tensor> result;
  Tensor power = base;
  for (uint64_t rest = magnitude; rest > 0; rest >>= 1) {
    if (rest & 1) result = result ? *result * power : power;
    if (rest > 1) power = power * power;
  }
  if (!result) return Tensor::ones(base.shape(), base.dtype());
  return exponent < 0 ? result->reciprocal() : *result;
}

Tensor float_pow(const Tensor& a, const Tensor& b) {
  const DType d = a.dtype();
  const Tensor zero = number(0, d), one = number(1, d);
  const Tensor magnitude = (b * a.abs().log2()).exp2();
  const Tensor half = b * number(0.5, d);
  const Tensor whole = b == b.trunc(), odd = half != half.trunc();
  const Tensor negative = where(whole, where(odd, -magnitude, magnitude), number(std::nan(""), d));
  const Tensor result = where(a < zero, negative, magnitude);
  return where((b == zero) | (a == one), one, result);
}

} // namespace

Tensor operator+(const Tensor& a, const Tensor& b) {
  if (promote(a.dtype(), b.dtype()) == DType::Bool) return binary_op("operator+", Op::Or, a, b);
  return binary_op("operator+", Op::Add, a, b);
}
Tensor operator-(const Tensor& a, const Tensor& b) {
  check_numbers("operator-", a, b);
  // Negated before it is broadcast: once an element, not once a use.
  const DType d = promote(a.dtype(), b.dtype());
  return binary_op("operator-", Op::Add, a.cast(d), unary_op(Op::Neg, b.cast(d)));
}
Tensor operator*(const Tensor& a, const Tensor& b) {
  if (promote(a.dtype(), b.dtype()) == DType::Bool) return binary_op("operator*", Op::And, a, b);
  return binary_op("operator*", Op::Mul, a, b);
}
Tensor operator/(const Tensor& a, const Tensor& b) {
  const DType d = float_dtype(promote(a.dtype(), b.dtype()));
  return binary_op("operator/", Op::Div, a.cast(wide(d)), b.cast(wide(d))).cast(d);
}
Tensor operator%(const Tensor& a, const Tensor& b) {
  check_numbers("operator%", a, b);
  auto [x, y] = match("operator%", a, b);
  const DType d = x.dtype();
  if (is_float(d)) return float_mod(x.cast(wide(d)), y.cast(wide(d))).cast(d);
  const Tensor r = binary_op("operator%", Op::Mod, x, y);
  if (is_unsigned(d)) return r;
  const Tensor zero = Tensor::zeros({}, d);
  return where((r != zero) & ((r < zero) != (y < zero)), r + y, r);
}
Tensor operator-(const Tensor& a) { return a.neg(); }

Tensor operator<(const Tensor& a, const Tensor& b) { return binary_op("operator<", Op::CmpLt, a, b); }
Tensor operator>(const Tensor& a, const Tensor& b) { return binary_op("operator>", Op::CmpLt, b, a); }
Tensor operator!=(const Tensor& a, const Tensor& b) { return binary_op("operator!=", Op::CmpNe, a, b); }
Tensor operator==(const Tensor& a, const Tensor& b) {
  return invert(binary_op("operator==", Op::CmpNe, a, b));
}
Tensor operator<=(const Tensor& a, const Tensor& b) {
  auto [x, y] = match("operator<=", a, b);
  // `not (y < x)` would be true of NaN.
  if (is_float(x.dtype())) return (x < y) | (x == y);
  return invert(y < x);
}
Tensor operator>=(const Tensor& a, const Tensor& b) {
  auto [x, y] = match("operator>=", a, b);
  if (is_float(x.dtype())) return (y < x) | (x == y);
  return invert(x < y);
}
Tensor operator&(const Tensor& a, const Tensor& b) { return binary_op("operator&", Op::And, a, b); }
Tensor operator|(const Tensor& a, const Tensor& b) { return binary_op("operator|", Op::Or, a, b); }
Tensor operator^(const Tensor& a, const Tensor& b) { return binary_op("operator^", Op::Xor, a, b); }
Tensor operator<<(const Tensor& a, const Tensor& b) { return binary_op("operator<<", Op::Shl, a, b); }
Tensor operator>>(const Tensor& a, const Tensor& b) { return binary_op("operator>>", Op::Shr, a, b); }

Tensor weak(double value, DType beside) {
  return Tensor::full({}, Scalar::of_float(is_float(beside) ? beside : DType::F64, value));
}
Tensor weak(int64_t value, DType beside) {
  return Tensor::full({}, Scalar::of_int(beside == DType::Bool ? DType::I64 : beside, value));
}

Tensor where(const Tensor& condition, const Tensor& a, const Tensor& b) {
  const DType d = promote(a.dtype(), b.dtype());
  const Shape shape = broadcast_shape("where", {condition.shape(), a.shape(), b.shape()});
  check_shape("where", shape, d);
  return wrap(graph::where(node_of(broadcast_to(truth(condition), shape)),
                           node_of(broadcast_to(a.cast(d), shape)), node_of(broadcast_to(b.cast(d), shape))));
}

Tensor maximum(const Tensor& a, const Tensor& b) {
  if (promote(a.dtype(), b.dtype()) == DType::Bool) return binary_op("maximum", Op::Or, a, b);
  return binary_op("maximum", Op::Max, a, b);
}

Tensor minimum(const Tensor& a, const Tensor& b) {
  auto [x, y] = match("minimum", a, b);
  if (x.dtype() == DType::Bool) return binary_op("minimum", Op::And, x, y);
  // The lowest integer has no negative: integers are turned around by their complement.
  if (is_integer(x.dtype()))
    return binary_op("minimum", Op::Max, x.bitwise_not(), y.bitwise_not()).bitwise_not();
  return -binary_op("minimum", Op::Max, -x, -y);
}

Tensor pow(const Tensor& a, const Tensor& b) {
  check_numbers("pow", a, b);
  auto [x, y] = match("pow", a, b);
  const Scalar* s = const_scalar(node_of(y));
  if (is_integer(x.dtype())) {
    if (s && s->as_int() >= 0) return constant_pow(x, s->as_int());
    const Tensor zero = Tensor::zeros({}, x.dtype());
    const Tensor one = Tensor::ones({}, x.dtype()),
                 minus_one = Tensor::full({}, Scalar::of_int(x.dtype(), -1));
    const Tensor power = int_pow(x, y);
    if (is_unsigned(x.dtype())) return power;
    const Tensor odd = (y & one) != zero;
    const Tensor inverse = where(x == one, one, where(x == minus_one, where(odd, minus_one, one), zero));
    return where(y < zero, inverse, power);
  }
  const DType d = x.dtype();
  const Tensor base = x.cast(wide(d));
  if (s && s->as_float() == std::trunc(s->as_float()) && std::fabs(s->as_float()) <= 16)
    return constant_pow(base, static_cast<int64_t>(s->as_float())).cast(d);
  return float_pow(base, y.cast(wide(d))).cast(d);
}

Tensor floor_divide(const Tensor& a, const Tensor& b) {
  check_numbers("floor_divide", a, b);
  auto [x, y] = match("floor_divide", a, b);
  const DType d = x.dtype();
  if (is_float(d)) {
    // A quotient that is whole may be rounded below itself: it is taken of what the remainder leaves.
    const Tensor u = x.cast(wide(d)), v = y.cast(wide(d));
    return ((u - float_mod(u, v)) / v).round().cast(d);
  }
  const Tensor q = binary_op("floor_divide", Op::IDiv, x, y);
  if (is_unsigned(d)) return q;
  const Tensor r = binary_op("floor_divide", Op::Mod, x, y), zero = Tensor::zeros({}, d);
  return where((r != zero) & ((r < zero) != (y < zero)), q - Tensor::ones({}, d), q);
}

Tensor logical_and(const Tensor& a, const Tensor& b) {
  return binary_op("logical_and", Op::And, truth(a), truth(b));
}
Tensor logical_or(const Tensor& a, const Tensor& b) {
  return binary_op("logical_or", Op::Or, truth(a), truth(b));
}

} // namespace lathe
