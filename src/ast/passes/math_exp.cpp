// Exponentials.
//
// exp and exp2 first subtract n ln 2 (or n) from x, and compute e^r (or 2^r) of the rest r by a polynomial.
// The polynomial is minimax in relative error (Remez exchange at 140 bits, then rounded to f32). Adding 1.5 *
// 2^23 to a float rounds it to an integer in the low bits. The constant added here also includes the
// exponent's bias, so that a shift of the low bits by 23 makes a power of two.
#include "ast/passes/math.hpp"

#include <numbers>

namespace lathe::ast::math {
namespace {

V power_of_two(V biased) { return from_bits(shl(biased, 23)); }

/// y * 2^n, where `biased` holds n + 254 in its low bits, for n in [-152, 128]. Multiplies by two factors, so
/// that a subnormal result is rounded once. Of n = 256 both factors are infinite.
V scale(V y, V biased) {
  const V half = shr(biased, 1);
  return y * power_of_two(half) * power_of_two(biased - half);
}

/// Whether x is p < c ? p : c with a constant c that is at most `high`.
bool is_at_most(V x, double high) {
  if (x.v->op != Op::Where) return false;
  const ValueRef &condition = x.v->sources[0], &c = x.v->sources[2];
  return c->op == Op::Const && std::get<Scalar>(c->attr).as_float() <= high && condition->op == Op::CmpLt &&
         condition->sources[0] == x.v->sources[1] && condition->sources[1] == c;
}

/// x, of which `high` is the largest whose result is finite. Above, `beyond` makes an infinite factor: a
/// product that only overflows is finite where it is fused with a sum, so that exp(inf) - inf would not be
/// NaN.
V within(V x, double low, double high, double beyond) {
  const V least = where(x < f32(low), f32(low), x);
  return is_at_most(x, high) ? least : where(f32(high) < least, f32(beyond), least);
}

constexpr double kShift = coefficients::kExpShift[0];

} // namespace

std::optional<Scaled> as_scaled(const Value& v) {
  if (v.op != Op::Mul && v.op != Op::Fma) return {};
  const bool negated = v.sources[0]->op == Op::Neg; // a Sub that became an Fma negates the factor
  const ValueRef &a = negated ? v.sources[0]->sources[0] : v.sources[0], &b = v.sources[1];
  if (a->op != Op::Mul || b->op != Op::Bitcast || b->dtype != DType::F32) return {};
  const ValueRef& shifted_up = b->sources[0];
  if (shifted_up->op != Op::Shl || shifted_up->sources[0]->op != Op::Sub) return {};
  const ValueRef& biased = shifted_up->sources[0]->sources[0];
  if (biased->op != Op::Bitcast || biased->sources[0]->dtype != DType::F32) return {};
  const V y{a->sources[0]}, shifted{biased->sources[0]};
  if (apply(Op::Mul, {a}, {b}).v != scale(y, bits(shifted)).v) return {};
  return Scaled{y.v, (shifted - f32(kShift)).v, negated};
}

V exp(V x) {
  x = within(x, -104, 88.72283, 256 * std::numbers::ln2);
  const V shift = f32(kShift), shifted = fma(x, f32(coefficients::kLog2E[0]), shift), n = shifted - shift;
  const V r = fma(n, f32(-coefficients::kLn2[1]), fma(n, f32(-coefficients::kLn2[0]), x));
  const V y = horner(r, coefficients::kExp);
  return scale(y, bits(shifted));
}

// 2^p of the product p = x log2 e as it is rounded, times e^(what the rounding left out, and log2 e beyond
// its first part).
V exp_f64(V x, double factor) {
  const auto f64 = [](double c) { return V{constant(Scalar::of_float(DType::F64, c))}; };
  const V log2e = f64(factor * std::numbers::log2e),
          p = {rounded(make_exact(Op::Mul, DType::F64, {x.v, log2e.v}))};
  const V rest = fma(x, f64(factor * coefficients::kLog2ERest64[0]), fma(x, log2e, -p));
  // Of an infinity, or where the result is one or 0, the rest may be NaN.
  const V left = where(p * p < f64(0x1p21), rest * f64(std::numbers::ln2), f64(0));
  return V{make(Op::Exp2, DType::F64, p.v)} * (f64(1) + left);
}

V exp2(V x) {
  x = within(x, -151, 127.99999, 256);
  const V shift = f32(kShift), shifted = x + shift, r = x - (shifted - shift);
  const V y = horner(r, coefficients::kExp2);
  return scale(y, bits(shifted));
}

} // namespace lathe::ast::math
