// Arithmetic of cells: each operation adds its rounding to what its operands' bounds come to.
#include <algorithm>

#include "net/array.hpp"

namespace lathe::net {
namespace {

bool both(Cell a, Cell b) { return a.decided() && b.decided(); }

/// v with the bound e, undecided where v is no number though the operands are not exact.
Cell result(DType d, Real v, Real e) {
  if (std::isnan(e) || e == kInfinity) return undecided();
  return rounded(d, {v, e});
}

/// The exponent of the lowest bit set.
int lowest_bit(Real v) {
  int exponent;
  const Real m = std::frexp(std::fabs(v), &exponent); // in [1/2, 1): 64 bits at most
  const auto bits = static_cast<uint64_t>(std::ldexp(m, 64));
  return exponent - 64 + __builtin_ctzll(bits);
}

} // namespace

Cell truth(bool value) { return {value ? Real{1} : Real{0}, 0}; }
Cell negated(Cell a) { return {-a.v, a.e}; }

Cell add(DType d, Cell a, Cell b) {
  if (!both(a, b)) return undecided();
  const Real v = a.v + b.v;
  Real e = a.e + b.e;
  if (a.exact() && b.exact()) {
    // What 64 bits lose of the sum is a bound of its own.
    // A product that overflows is not rounded where it is added at once.
    if (std::isinf(a.v) && std::isinf(b.v) && a.v != b.v && a.e + b.e > 0) return undecided();
    const Real t = v - a.v, lost = (a.v - (v - t)) + (b.v - t);
    e = std::isfinite(v) ? std::fabs(lost) : 0;
  }
  return result(d, v, e);
}
Cell sub(DType d, Cell a, Cell b) { return add(d, a, negated(b)); }

Cell mul(DType d, Cell a, Cell b) {
  if (!both(a, b)) return undecided();
  const Real v = a.v * b.v;
  if (a.exact() && b.exact()) return result(d, v, std::isfinite(v) ? std::fabs(std::fma(a.v, b.v, -v)) : 0);
  if (!std::isfinite(a.v) || !std::isfinite(b.v)) {
    const Cell& other = std::isfinite(a.v) ? a : b; // an infinity times what may be 0
    if (std::isnan(a.v) || std::isnan(b.v)) return {v, 0};
    return std::fabs(other.v) > other.e ? Cell{v, 0} : undecided();
  }
  return result(d, v, a.e * std::fabs(b.v) + b.e * std::fabs(a.v) + a.e * b.e);
}

Cell divide(DType d, Cell a, Cell b) {
  if (!both(a, b)) return undecided();
  if (std::isnan(a.v) || std::isnan(b.v)) return {a.v + b.v, 0};
  if (b.exact() && b.v == 0) {
    if (a.v == 0) return a.exact() ? Cell{std::nanl(""), 0} : undecided();
    if (b.e > 0 || std::fabs(a.v) <= a.e) return undecided(); // of unknown sign
    return {a.v / b.v, 0};
  }
  if (std::fabs(b.v) <= b.e) return undecided();
  if (std::isinf(a.v) || std::isinf(b.v))
    return {a.v / b.v, std::isinf(b.v) && !std::isinf(a.v) ? kSignless : 0};
  const Real v = a.v / b.v;
  return result(d, v, a.exact() && b.exact() ? 0 : (a.e + std::fabs(v) * b.e) / (std::fabs(b.v) - b.e));
}

Cell root(DType d, Cell a) {
  if (a.exact() && a.v == 0) return a;
  return monotone(d, a, [](Real x) { return std::sqrt(x); }, 0);
}

Cell monotone(DType d, Cell a, const std::function<Real(Real)>& f, Real ulps) {
  if (!a.decided()) return a;
  const Real v = f(a.v);
  if (a.exact()) return loosened(d, rounded(d, {v, 0}), ulps);
  const Real low = f(a.v - a.e), high = f(a.v + a.e);
  if (!std::isfinite(v) || !std::isfinite(low) || !std::isfinite(high)) {
    if (std::isnan(a.v)) return {v, 0};
    return low == high && low == v ? Cell{v, 0} : undecided();
  }
  return loosened(d, rounded(d, {v, std::max(std::fabs(high - v), std::fabs(v - low)) * 1.0001L}), ulps);
}

Cell sum_of(DType d, const std::vector<Cell>& terms) {
  if (!is_float(d)) {
    Wide total = 0;
    for (Cell c : terms) {
      if (!c.decided()) return undecided();
      total += static_cast<Wide>(c.v);
    }
    return wrapped(d, total);
  }
  Real v = 0, sizes = 0, e = 0;
  bool exact = true;
  int lowest = 1 << 20;
  bool nan = false, plus = false, minus = false, unknown = false, overflows = false;
  for (Cell c : terms) {
    unknown |= !c.decided();
    nan |= std::isnan(c.v);
    overflows |= std::isinf(c.v) && c.e > 0;
    plus |= c.v == kInfinity;
    minus |= c.v == -kInfinity;
    exact &= c.exact();
    v += c.v;
    sizes += std::fabs(c.v);
    e += c.e;
    if (c.v != 0 && std::isfinite(c.v)) lowest = std::min(lowest, lowest_bit(c.v));
  }
  if (unknown) return undecided();
  if (nan) return {std::nanl(""), 0};
  if (plus && minus) return overflows ? undecided() : Cell{std::nanl(""), 0};
  if (plus || minus) {
    Real rest = 0; // must not overflow to the other infinity
    for (Cell c : terms)
      if (std::isfinite(c.v)) rest += std::fabs(c.v);
    return rest > largest(d) / (overflows ? 2 : 1) ? undecided() : Cell{v, overflows ? kSignless : 0};
  }
  if (sizes + e > largest(d)) return undecided();
  if (terms.size() == 1) return terms[0].v == 0 && terms[0].exact() ? Cell{0, kSignless} : terms[0];
  const Format f = format_of(d);
  if (exact && (sizes == 0 || sizes <= std::ldexp(Real{1}, lowest + f.digits)))
    return {v, v == 0 ? kSignless : 0}; // every order of adding is exact
  const Real n = static_cast<Real>(terms.size() - 1);
  return {v, e + n * (std::ldexp(Real{1}, -f.digits) * 1.01L + 0x1p-63L) * (sizes + e)};
}

Cell product_of(DType d, const std::vector<Cell>& factors) {
  if (!is_float(d)) {
    Wide total = 1;
    for (Cell c : factors) {
      if (!c.decided()) return undecided();
      // Unsigned, as the product of two u64 needs all 128 bits.
      total = static_cast<Wide>(
          wrapped(d, static_cast<Wide>(static_cast<unsigned __int128>(total) *
                                       static_cast<unsigned __int128>(static_cast<Wide>(c.v))))
              .v);
    }
    return {static_cast<Real>(total), 0};
  }
  Real above = 1, below = 1;
  bool whole = true;
  Cell p{1, 0};
  for (Cell c : factors) {
    if (!c.decided()) return undecided();
    if (!std::isfinite(c.v)) { // what overflows in one order does not in another
      above = kInfinity;
      continue;
    }
    const Real size = std::fabs(c.v) + c.e;
    above *= std::max(size, Real{1});
    if (size > 0) below *= std::min(size, Real{1});
    whole &= c.exact() && c.v == std::trunc(c.v);
    p = {p.v * c.v, p.e * size + c.e * std::fabs(p.v)};
  }
  const Format f = format_of(d);
  if (factors.size() == 1) return factors[0];
  if (above > largest(d) || below < std::ldexp(Real{1}, f.least)) return undecided();
  if (whole && above <= std::ldexp(Real{1}, f.digits)) return {p.v, p.v == 0 ? kSignless : 0};
  const Real n = static_cast<Real>(factors.size());
  return {p.v, p.e + n * std::fabs(p.v) * (std::ldexp(Real{1}, -f.digits) * 1.01L + 0x1p-63L)};
}

Cell term_of(DType d, Cell a, Cell b) {
  if (!is_float(d)) return product_of(d, {a, b});
  Cell term = mul(wide_dtype(d), a, b);
  if (d != DType::BF16 || term.v == 0) return term;
  constexpr Real kLeastNormal = 0x1p-126L, kFarFromSubnormal = 0x1p-100L; // sums of these stay normal
  if (std::min(std::fabs(a.v), std::fabs(b.v)) < kLeastNormal) term.e += std::fabs(term.v);
  if (std::fabs(term.v) < kFarFromSubnormal) term.e += 2 * kLeastNormal;
  return term;
}

Cell max_of(DType d, Cell a, Cell b) {
  if (!both(a, b)) return undecided();
  if (is_float(d) && (std::isnan(a.v) || std::isnan(b.v))) return {std::nanl(""), 0};
  const Real v = std::max(a.v, b.v);
  if (a.exact() && b.exact()) {
    if (v == 0 && is_float(d))
      return {v, a.v != b.v                               ? (a.v > b.v ? a.e : b.e)
                 : std::signbit(a.v) == std::signbit(b.v) ? std::max(a.e, b.e)
                                                          : kSignless};
    return {v, 0};
  }
  if (a.v - a.e > b.v + b.e) return a;
  if (b.v - b.e > a.v + a.e) return b;
  return {v, std::max(a.e, b.e)};
}

int compared(Cell a, Cell b) {
  if (!both(a, b)) return 2;
  if (std::isnan(a.v) || std::isnan(b.v)) return 3;
  if (a.exact() && b.exact()) return a.v < b.v ? -1 : a.v > b.v ? 1 : 0;
  if (a.v + a.e < b.v - b.e) return -1;
  if (a.v - a.e > b.v + b.e) return 1;
  return 2;
}

} // namespace lathe::net
