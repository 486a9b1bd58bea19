// Sine, cosine and tangent.
//
// x = q pi/2 + r, where |r| is at most a little over pi/4. The sine and the cosine of r give those of x. r is
// the sum of two floats. For |x| up to 2^17, near() subtracts pi/2 in three parts. For larger |x|, far() uses
// the bits of 1/pi that matter at the exponent of x (Payne and Hanek), in 64-bit integers. far() is the first
// choice of a Where (a detour), which renderers jump over if no lane needs it.
#include "ast/passes/math.hpp"

namespace lathe::ast::math {
namespace {

constexpr double kMostNear = 0x1p17;

struct Reduced {
  V high, low; // r
  V quarters;  // q as an i32; only its last two bits matter
};

/// For |x| up to kMostNear. The first product has no rounding error; `low` includes the error of the second.
Reduced near(V x) {
  constexpr double round = 0x1.8p23;
  constexpr auto& part = coefficients::kHalfPi;
  const V shifted = fma(x, f32(coefficients::kTwoOverPi[0]), f32(round)), q = shifted - f32(round);
  const V rest = fma(q, f32(-part[0]), x);
  const V p = rounded_product(q, f32(part[1])), p_low = fma(q, f32(part[1]), -p);
  const V high = rest - p;
  const V low = ((rest - high) - p) - fma(q, f32(part[2]), p_low);
  return {high, low, bits(shifted)};
}

/// For |x| from 2^17 on. The result for an infinity or a NaN means nothing.
Reduced far(V x) {
  constexpr uint64_t inverse[] = {0x00A2F983, 0x6E4E4415, 0x29FC2757, 0xD1F534DD,
                                  0xC0DB6295, 0x993C4390, 0x41FE5163}; // 2^6 / pi as a string of bits
  const V magnitude = cast(bits(x) & i32(0x7FFFFFFF), DType::U32);
  const V mantissa = cast((magnitude & u32(0x7FFFFF)) | u32(0x800000), DType::U64);
  // |x| = mantissa * 2^(start - 6). From bit `start` on, the bits of 1/pi count 1, 1/2, ... in mantissa / pi.
  // The bits before `start` add even numbers, which are whole turns.
  const V start = shr(magnitude, 23) - u32(144);
  const V word = shr(start, 5), by = cast(start & u32(31), DType::U64);
  const V second = u32(1) < word, odd = u32(0) < (word & u32(1));
  V chosen[5], words[4];
  for (int i = 0; i < 5; ++i) chosen[i] = where(second, u32(inverse[i + 2]), u32(inverse[i]));
  for (int i = 0; i < 4; ++i) words[i] = cast(where(odd, chosen[i + 1], chosen[i]), DType::U64);
  const auto bits_from = [&](int i) { return shr(shl(shl(words[i], 32) | words[i + 1], by), 32); };
  const V turns = // bit 63 stands for half a turn
      shl(mantissa * bits_from(0), 32) + mantissa * bits_from(1) + shr(mantissa * bits_from(2), 32);
  const V q = shr(turns + u64(uint64_t{1} << 61), 62); // to the nearest quarter
  const V rest = cast(turns - shl(q, 62), DType::I64);
  const V a = cast(rest, DType::F32), b = cast(rest - cast(a, DType::I64), DType::F32);
  constexpr double unit = 0x1.921fb6p-62, unit_low = -0x1.777a5cp-87; // pi / 2^63
  const V high = rounded_product(a, f32(unit));
  const V low = fma(a, f32(unit), -high) + fma(a, f32(unit_low), b * f32(unit));
  // The code above computes with |x|. The lines below apply the sign of x.
  const V sign = sign_bit(x), negative = i32(0) - shr(sign, 31);
  return {from_bits(bits(high) ^ sign), from_bits(bits(low) ^ sign),
          cast(q, DType::I32) * (i32(1) - negative - negative)};
}

V sine_of(const Reduced& r) {
  const V z = r.high * r.high;
  const V s = horner(z, coefficients::kSin);
  return fma(r.high * z, s, r.low) + r.high;
}

V cosine_of(const Reduced& r) {
  const V z = r.high * r.high;
  const V c = horner(z, coefficients::kCos);
  return fma(z, c, -(r.high * r.low)) + f32(1);
}

V is_odd(V i) { return i32(0) < (i & i32(1)); }

/// sin(r + quarters pi/2)
V sine(const Reduced& r) {
  const V value = where(is_odd(r.quarters), cosine_of(r), sine_of(r));
  return from_bits(bits(value) ^ shl(shr(r.quarters, 1), 31));
}
V cosine(Reduced r) {
  r.quarters = r.quarters + i32(1);
  return sine(r);
}
V tangent(const Reduced& r) {
  const V s = sine_of(r), c = cosine_of(r), odd = is_odd(r.quarters);
  return where(odd, -c, s) / where(odd, s, c);
}

template <class F> V of_angle(V x, F&& f) {
  // Adding x * 0 makes an infinity NaN. x - x would not do: if x is a product a * b, it becomes
  // fma(a, b, -x), which is infinite if x overflows.
  const V distant = fma(x, f32(0), f(far(x)));
  return where(f32(kMostNear) < abs(x), distant, f(near(x)));
}

} // namespace

V sin(V x) { return of_angle(x, sine); }
V cos(V x) { return of_angle(x, cosine); }
V tan(V x) { return of_angle(x, tangent); }

} // namespace lathe::ast::math
