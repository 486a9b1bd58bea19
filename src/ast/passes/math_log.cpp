// Logarithms.
//
// x = m 2^k with m in [sqrt(1/2), sqrt(2)), f = m - 1, and log(1 + f) = f + f^2 (-1/2 + f q(f)). The code
// adds the small second part before the large parts f and k log 2. q is minimax in relative error of the
// logarithm.
#include <limits>

#include "ast/passes/math.hpp"

namespace lathe::ast::math {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kLn2High = 0x1.62e4p-1, kLn2Low = 0x1.7f7d1cp-20; // 16 bits in High: k * kLn2High is exact

struct Parts {
  V k; // an i32
  V f;
};

Parts split(V normal) {
  const V k = shr(bits(normal) - i32(0x3F3504F3), 23);
  return {k, from_bits(bits(normal) - shl(k, 23)) - f32(1)};
}

/// log(1 + f) - f.
V correction(V f) {
  const V q = horner(f, {0x1.555554p-2, -0x1.000226p-2, 0x1.99a008p-3, -0x1.547244p-3, 0x1.22da24p-3,
                         -0x1.0d8544p-3, 0x1.055b4p-3, -0x1.38b514p-4});
  return f * f * fma(f, q, f32(-0.5));
}

/// `finite`, but with the special results if x is 0, negative, infinite or NaN.
V with_edges(V x, V finite) {
  finite = where(x < f32(kInfinity), finite, x); // infinity and NaN are their own logarithm
  return where(x < f32(0x1p-149), where(x < f32(0), f32(kNan), f32(-kInfinity)), finite);
}

/// The logarithm of x that finish(k, f, correction(f)) computes, with k as a float.
template <class F> V logarithm(V x, F&& finish) {
  const V is_small = x < f32(0x1p-126);
  const Parts p = split(where(is_small, x * f32(0x1p23), x));
  const V k = cast(p.k, DType::F32) + where(is_small, f32(-23), f32(0));
  return with_edges(x, finish(k, p.f, correction(p.f)));
}

V natural(V k, V f, V small) { return fma(k, f32(kLn2High), f + fma(k, f32(kLn2Low), small)); }

} // namespace

V log(V x) { return logarithm(x, natural); }

V log2(V x) {
  constexpr double high = 0x1.715476p+0, low = 0x1.4ae0cp-26; // log2(e)
  return logarithm(x, [](V k, V f, V small) {
    const V p = rounded_product(f, f32(high)), p_low = fma(f, f32(high), -p);
    const V sum = k + p, lost = (p - (sum - k)) + p_low;
    return sum + (fma(small, f32(high), f * f32(low)) + lost);
  });
}

V log10(V x) {
  constexpr double high = 0x1.bcb7b2p-2, low = -0x1.5b235ep-27; // log10(e)
  constexpr double high2 = 0x1.3442p-2, low2 = -0x1.95ec1p-19;  // log10(2), 16 bits and the rest
  return logarithm(x, [](V k, V f, V small) {
    const V rest = fma(small, f32(high), fma(f, f32(low), k * f32(low2)));
    return fma(k, f32(high2), fma(f, f32(high), rest));
  });
}

} // namespace lathe::ast::math
