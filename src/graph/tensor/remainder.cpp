// Remainder and floor division, as NumPy's: the remainder has the sign of the divisor, and the quotient is rounded down.
#include "graph/function.hpp"
#include "graph/tensor_impl.hpp"

namespace lathe {
using namespace graph;
namespace {

// Whether a division that rounds towards zero leaves a remainder of the wrong sign.
Tensor is_off(const Tensor& rest, const Tensor& divisor) {
  const Tensor zero = Tensor::zeros({}, rest.dtype());
  return (rest != zero) & ((rest < zero) != (divisor < zero));
}

// The remainder of floats of one dtype. Op::Mod, the remainder of the division that rounds towards zero, is
// exact; only the sum rounds. A remainder of 0 has the divisor's sign.
Tensor float_remainder(const Tensor& a, const Tensor& b) {
  const DType d = a.dtype();
  const Tensor zero = number(0, d), rest = binary_op("operator%", Op::Mod, a, b);
  const Tensor signed_zero = where(b < zero, number(-0.0, d), zero);
  const Tensor value = where(rest == zero, signed_zero, where(is_off(rest, b), rest + b, rest));
  return with_derivative("remainder", value, {a, b});
}

// a - rest is a multiple of b but for its rounding, so its quotient by b lies near a whole number. A quotient
// of 0 has the sign of a / b. Division by 0 gives a / b.
Tensor float_quotient(const Tensor& a, const Tensor& b) {
  const DType d = a.dtype();
  const Tensor zero = number(0, d), one = number(1, d);
  const Tensor rest = binary_op("floor_divide", Op::Mod, a, b);
  const Tensor towards_zero = (a - rest) / b;
  const Tensor near = where(is_off(rest, b), towards_zero - one, towards_zero);
  const Tensor below = near.floor();
  const Tensor whole = where(number(0.5, d) < near - below, below + one, below);
  const Tensor ratio = a / b;
  return where(b == zero, ratio, where(near == zero, ratio.trunc(), whole));
}

} // namespace

Tensor operator%(const Tensor& a, const Tensor& b) {
  check_numbers("operator%", a, b);
  auto [x, y] = match("operator%", a, b);
  const DType d = x.dtype();
  if (is_float(d)) return float_remainder(x.cast(wide(d)), y.cast(wide(d))).cast(d);
  const Tensor rest = binary_op("operator%", Op::Mod, x, y);
  return is_unsigned(d) ? rest : where(is_off(rest, y), rest + y, rest);
}

Tensor floor_divide(const Tensor& a, const Tensor& b) {
  check_numbers("floor_divide", a, b);
  auto [x, y] = match("floor_divide", a, b);
  const DType d = x.dtype();
  if (is_float(d)) return float_quotient(x.cast(wide(d)), y.cast(wide(d))).cast(d);
  const Tensor quotient = binary_op("floor_divide", Op::IDiv, x, y);
  if (is_unsigned(d)) return quotient;
  const Tensor rest = binary_op("floor_divide", Op::Mod, x, y);
  return where(is_off(rest, y), quotient - Tensor::ones({}, d), quotient);
}

} // namespace lathe
