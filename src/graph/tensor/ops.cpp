// Operators and the other elementwise functions of two or three tensors.
#include "graph/narrow.hpp"

namespace lathe {
using namespace graph;
namespace {

Tensor invert(const Tensor& bools) {
  return binary_op("logical_not", Op::Xor, bools, Tensor::full({}, true));
}
Tensor truth(const Tensor& t) { return t.cast(DType::Bool); }

} // namespace

Tensor operator+(const Tensor& a, const Tensor& b) {
  if (promote(a.dtype(), b.dtype()) == DType::Bool) return binary_op("operator+", Op::Or, a, b);
  return binary_op("operator+", Op::Add, a, b);
}
Tensor operator-(const Tensor& a, const Tensor& b) {
  check_numbers("operator-", a, b);
  // b is negated before it is broadcast: once per element, not once per use.
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

Tensor where(const Tensor& condition, const Tensor& a, const Tensor& b) {
  const DType d = promote(a.dtype(), b.dtype());
  const Shape shape = broadcast_shape("where", {condition.shape(), a.shape(), b.shape()});
  check_shape("where", shape, d);
  if (is_narrow(d)) return of_codes(d, where(condition, codes_of(a), codes_of(b)));
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
  // The lowest integer has no negative, so integers take the complement, which reverses their order, too.
  if (is_integer(x.dtype()))
    return binary_op("minimum", Op::Max, x.bitwise_not(), y.bitwise_not()).bitwise_not();
  return -binary_op("minimum", Op::Max, -x, -y);
}

Tensor logical_and(const Tensor& a, const Tensor& b) {
  return binary_op("logical_and", Op::And, truth(a), truth(b));
}
Tensor logical_or(const Tensor& a, const Tensor& b) {
  return binary_op("logical_or", Op::Or, truth(a), truth(b));
}

} // namespace lathe
