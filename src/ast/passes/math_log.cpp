// Logarithms.
//
// x = m 2^k with m in [sqrt(1/2), sqrt(2)), f = m - 1, and log(1 + f) = f + f^2 (-1/2 + f q(f)). The code
// adds the small second part before the large parts f and k log 2. q is minimax in relative error of the
// logarithm.
#include <limits>

#include "ast/passes/math.hpp"

namespace lathe::ast::math {
namespace {

using namespace coefficients;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

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
  const V q = horner(f, kLog);
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

V natural(V k, V f, V small) { return fma(k, f32(kLn2[0]), f + fma(k, f32(kLn2[1]), small)); }

} // namespace

V log(V x) { return logarithm(x, natural); }

V log2(V x) {
  constexpr double high = kLog2E[0], low = kLog2E[1];
  return logarithm(x, [](V k, V f, V small) {
    const V p = rounded_product(f, f32(high)), p_low = fma(f, f32(high), -p);
    const V sum = k + p, lost = (p - (sum - k)) + p_low;
    return sum + (fma(small, f32(high), f * f32(low)) + lost);
  });
}

V log10(V x) {
  return logarithm(x, [](V k, V f, V small) {
    const V rest = fma(small, f32(kLog10E[0]), fma(f, f32(kLog10E[1]), k * f32(kLog10Of2[1])));
    return fma(k, f32(kLog10Of2[0]), fma(f, f32(kLog10E[0]), rest));
  });
}

} // namespace lathe::ast::math
