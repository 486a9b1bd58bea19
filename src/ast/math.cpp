// Exp2, Log2 and Sin of f32 as sequences of table ops, so that every renderer vectorises them and gives the
// same bits. f16 and bf16 go by way of f32; f64 is left to the C library.
//
// Measured against double precision (tests/property/ast_passes_test.cpp prints the figures):
//   exp2   0.91 ulp over all floats, subnormal results and overflow included; exact at integers
//   log2   2.1 ulp over all floats; exact at powers of two
//   sin    2.3 ulp for |x| <= 1e5; absolute error under 1e-6 for |x| <= 1e7; beyond that it only stays within
//   [-1.1, 1.1]
// The polynomials are minimax in relative error (Remez exchange at 120 bits, then rounded to f32).
#include <limits>

#include "ast/ast.hpp"

namespace lathe::ast {
namespace {

/// A value with operators; every constant takes the dtype of what it meets.
struct V {
  ValueRef v;
};
V number(DType dtype, double x) { return {constant(Scalar::of_float(dtype, x))}; }
V f32(double x) { return number(DType::F32, x); }
V i32(int64_t x) { return {constant(Scalar::of_int(DType::I32, x))}; }
V apply(Op op, V a, V b) { return {make(op, result_dtype(op, a.v->dtype), {a.v, b.v})}; }
V operator+(V a, V b) { return apply(Op::Add, a, b); }
V operator-(V a, V b) { return apply(Op::Sub, a, b); }
V operator*(V a, V b) { return apply(Op::Mul, a, b); }
V operator<(V a, V b) { return apply(Op::CmpLt, a, b); }
V shl(V a, int bits) { return apply(Op::Shl, a, i32(bits)); }
V shr(V a, int bits) { return apply(Op::Shr, a, i32(bits)); }
V trunc(V a) { return {make(Op::Trunc, a.v->dtype, a.v)}; }
V neg(V a) { return {make(Op::Neg, a.v->dtype, a.v)}; }
V fma(V a, V b, V c) { return {make(Op::Fma, a.v->dtype, {a.v, b.v, c.v})}; }
V where(V c, V a, V b) { return {make(Op::Where, a.v->dtype, {c.v, a.v, b.v})}; }
V bits(V a) { return {make(Op::Bitcast, DType::I32, a.v)}; }
V from_bits(V a) { return {make(Op::Bitcast, DType::F32, a.v)}; }
V cast(V a, DType to) { return {make(Op::Cast, to, a.v)}; }

/// x limited to [low, high]; a NaN stays.
V clamp(V x, double low, double high) {
  x = where(x < f32(low), f32(low), x);
  return where(f32(high) < x, f32(high), x);
}

/// c[0] + x * (c[1] + x * (...)).
V horner(V x, std::initializer_list<double> coefficients) {
  const double* c = std::end(coefficients) - 1;
  V sum = f32(*c);
  while (c != std::begin(coefficients)) sum = fma(sum, x, f32(*--c));
  return sum;
}

V exp2(V x) {
  x = clamp(x, -151, 129);
  // Adding 1.5 * 2^23 rounds x to an integer n in the low bits; 254 more are the two exponent biases below.
  const V shift = f32(0x1.8p23 + 254);
  const V shifted = x + shift;
  const V r = x - (shifted - shift);
  const V p = horner(
      r, {1, 0x1.62e432p-1, 0x1.ebfbep-3, 0x1.c6ae2cp-5, 0x1.3b29e4p-7, 0x1.5f88fep-10, 0x1.446c7ep-13});
  // 2^n in two factors, since n is in [-151, 129]. Shifting by 23 leaves only the biased exponents.
  const V n = bits(shifted), half = shr(n, 1);
  return p * from_bits(shl(half, 23)) * from_bits(shl(n - half, 23));
}

V log2(V x) {
  const V is_small = x < f32(0x1p-126);
  const V scaled = where(is_small, x * f32(0x1p23), x);
  // m = scaled / 2^k in [sqrt(1/2), sqrt(2)).
  const V k = shr(bits(scaled) - i32(0x3F3504F3), 23);
  const V f = from_bits(bits(scaled) - shl(k, 23)) - f32(1);
  const V exponent = cast(k, DType::F32) + where(is_small, f32(-23), f32(0));
  const V q = horner(f, {0x1.715476p+0, -0x1.71547p-1, 0x1.ec73d6p-2, -0x1.715c4ep-2, 0x1.26d384p-2,
                         -0x1.e95be8p-3, 0x1.b9c91ap-3, -0x1.a87d08p-3, 0x1.01b6d4p-3});
  const double infinity = std::numeric_limits<double>::infinity();
  const V finite =
      where(x < f32(infinity), fma(f, q, exponent), x); // infinity and NaN are their own logarithm
  const V edge = where(x < f32(0), f32(std::numeric_limits<double>::quiet_NaN()), f32(-infinity));
  return where(x < f32(0x1p-149), edge, finite);
}

/// Takes n * pi off x, for the integer n nearest to x / pi. The first product with pi's leading bits leaves
/// no rounding error.
V reduce(V x, V& n) {
  n = trunc(fma(x, f32(0x1.45f306p-2), where(x < f32(0), f32(-0.5), f32(0.5))));
  const V m = neg(n);
  return fma(m, f32(-0x1.ee59dap-49), fma(m, f32(-0x1.777a5cp-24), fma(m, f32(0x1.921fb6p+1), x)));
}

V sin(V x) {
  V n, rest;
  V r = reduce(x, n);
  r = reduce(r, rest); // of large x, whose n is rounded
  r = clamp(r, -1.65, 1.65);
  const V z = r * r;
  const V p = fma(r * z, horner(z, {-0x1.555548p-3, 0x1.110e0ap-7, -0x1.9f4aa4p-13, 0x1.5baaf4p-19}), r);
  // odd is -1, 0 or 1: the parity of n + rest, each of which may be too large to add up exactly.
  const V a = fma(trunc(n * f32(0.5)), f32(-2), n), b = fma(trunc(rest * f32(0.5)), f32(-2), rest);
  const V sign = fma(a * f32(-2), a, f32(1)) * fma(b * f32(-2), b, f32(1));
  return p * sign;
}

ValueRef expand(const ValueRef& v) {
  if (v->op != Op::Exp2 && v->op != Op::Log2 && v->op != Op::Sin) return v;
  if (v->dtype == DType::F64) return v;
  const V x = cast({v->sources[0]}, DType::F32);
  const V y = v->op == Op::Exp2 ? exp2(x) : v->op == Op::Log2 ? log2(x) : sin(x);
  return cast(y, v->dtype).v;
}

} // namespace

Kernel expand_math(const Kernel& kernel) {
  Rewriter rewriter;
  rewriter.on_value = expand;
  Kernel out = kernel;
  out.body = rewrite(kernel.body, rewriter);
  return out;
}

} // namespace lathe::ast
