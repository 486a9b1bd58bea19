// Values with operators, for writing functions as sequences of table ops; and the f32 functions of
// math_*.cpp.
#pragma once
#include <optional>
#include <span>

#include "ast/ast.hpp"
#include "core/coefficients.hpp"

namespace lathe::ast::math {

struct V {
  ValueRef v;
};

inline V f32(double x) { return {constant(Scalar::of_float(DType::F32, x))}; }
inline V integer(DType dtype, uint64_t x) {
  return {constant(Scalar::of_int(dtype, static_cast<int64_t>(x)))};
}
inline V i32(int64_t x) { return integer(DType::I32, static_cast<uint64_t>(x)); }
inline V u32(uint64_t x) { return integer(DType::U32, x); }
inline V u64(uint64_t x) { return integer(DType::U64, x); }

inline V apply(Op op, V a, V b) { return {make(op, result_dtype(op, a.v->dtype), {a.v, b.v})}; }
inline V operator+(V a, V b) { return apply(Op::Add, a, b); }
inline V operator-(V a, V b) { return apply(Op::Sub, a, b); }
inline V operator*(V a, V b) { return apply(Op::Mul, a, b); }
inline V operator/(V a, V b) { return apply(Op::Div, a, b); }
inline V operator<(V a, V b) { return apply(Op::CmpLt, a, b); }
inline V operator&(V a, V b) { return apply(Op::And, a, b); }
inline V operator|(V a, V b) { return apply(Op::Or, a, b); }
inline V operator^(V a, V b) { return apply(Op::Xor, a, b); }
inline V operator-(V a) { return {make(Op::Neg, a.v->dtype, a.v)}; }
inline V shl(V a, V bits) { return apply(Op::Shl, a, bits); }
inline V shr(V a, V bits) { return apply(Op::Shr, a, bits); }
inline V shl(V a, int bits) { return shl(a, integer(a.v->dtype, static_cast<uint64_t>(bits))); }
inline V shr(V a, int bits) { return shr(a, integer(a.v->dtype, static_cast<uint64_t>(bits))); }
inline V fma(V a, V b, V c) { return {make(Op::Fma, a.v->dtype, {a.v, b.v, c.v})}; }
/// a * b, rounded, and never fused into a sum. For code that computes the rounding error itself.
inline V rounded_product(V a, V b) { return fma(a, b, f32(0)); }
inline V where(V c, V a, V b) { return {make(Op::Where, a.v->dtype, {c.v, a.v, b.v})}; }
inline V cast(V a, DType to) { return {make(Op::Cast, to, a.v)}; }
inline V bits(V a) { return {make(Op::Bitcast, DType::I32, a.v)}; }
inline V from_bits(V a) { return {make(Op::Bitcast, DType::F32, a.v)}; }

inline V abs(V x) { return from_bits(bits(x) & i32(0x7FFFFFFF)); }
inline V sign_bit(V x) { return bits(x) & i32(-0x80000000LL); }

/// c[0] + x * (c[1] + x * (...)).
inline V horner(V x, std::span<const double> coefficients) {
  V sum = f32(coefficients.back());
  for (size_t k = coefficients.size() - 1; k-- > 0;) sum = fma(sum, x, f32(coefficients[k]));
  return sum;
}

V exp(V x);
V exp2(V x);
/// Of f64: e^(factor * x), where factor is plus or minus a power of two. By the C library's exp2.
V exp_f64(V x, double factor);
/// y * 2^n rounded once, or its negation: the last step of exp and exp2. as_scaled finds it in a Mul, or as
/// the product of an Fma. For targets that have one instruction for it.
struct Scaled {
  ValueRef y, n; // n: f32, a whole number
  bool negated = false;
};
std::optional<Scaled> as_scaled(const Value& v);
V log(V x);
V log2(V x);
V log10(V x);
V sin(V x);
V cos(V x);
V tan(V x);

} // namespace lathe::ast::math
