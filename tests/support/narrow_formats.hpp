// What the narrow dtypes are, by their definitions: a list of all values of a format, and the nearest of a
// list by search. Nothing here is lathe's own arithmetic.
#pragma once
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "lathe/dtype.hpp"

namespace lathe::test {

inline constexpr DType kNarrowIntegers[] = {DType::I4, DType::U4, DType::I2, DType::U2};
inline constexpr DType kNarrowFloats[] = {DType::F8E4M3FN,   DType::F8E4M3FNUZ, DType::F8E5M2,
                                          DType::F8E5M2FNUZ, DType::F4E2M1,     DType::F8E8M0};

/// The value of every code, in the order of the codes.
inline std::vector<double> values_by_definition(DType dtype) {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN(),
                   kInf = std::numeric_limits<double>::infinity();
  std::vector<double> values;
  const auto floats = [&](int exponent_bits, int mantissa_bits, int bias) {
    for (int sign = 0; sign < 2; ++sign)
      for (int e = 0; e < 1 << exponent_bits; ++e)
        for (int m = 0; m < 1 << mantissa_bits; ++m) {
          const double fraction = m / std::exp2(mantissa_bits);
          const double v = e == 0 ? fraction * std::exp2(1 - bias) : (1 + fraction) * std::exp2(e - bias);
          values.push_back(sign ? -v : v);
        }
  };
  switch (dtype) {
  case DType::I4: return {0, 1, 2, 3, 4, 5, 6, 7, -8, -7, -6, -5, -4, -3, -2, -1};
  case DType::U4: return {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
  case DType::I2: return {0, 1, -2, -1};
  case DType::U2: return {0, 1, 2, 3};
  case DType::F4E2M1: floats(2, 1, 1); break;
  case DType::F8E4M3FN:
    floats(4, 3, 7);
    values[0x7F] = values[0xFF] = kNan;
    break;
  case DType::F8E4M3FNUZ:
    floats(4, 3, 8);
    values[0x80] = kNan;
    break;
  case DType::F8E5M2FNUZ:
    floats(5, 2, 16);
    values[0x80] = kNan;
    break;
  case DType::F8E5M2:
    floats(5, 2, 15);
    values[0x7C] = kInf;
    values[0xFC] = -kInf;
    for (int k = 1; k < 4; ++k)
      values[static_cast<size_t>(0x7C + k)] = values[static_cast<size_t>(0xFC + k)] = kNan;
    break;
  default: // f8e8m0
    for (int e = 0; e < 255; ++e) values.push_back(std::exp2(e - 127));
    values.push_back(kNan);
  }
  return values;
}

/// Casts to one narrow float, by search among its values.
class NearestCode {
public:
  explicit NearestCode(DType dtype) : dtype_(dtype) {
    const std::vector<double> all = values_by_definition(dtype);
    for (size_t code = 0; code < all.size() && !std::signbit(all[code]) && std::isfinite(all[code]); ++code)
      positive_.push_back(all[code]);
  }

  uint8_t operator()(double x, NarrowCast how) const {
    return dtype_ == DType::F8E8M0 ? scale(x, how) : number(x, how.saturates);
  }
  /// Numbers where the result changes, and their neighbours in f64: every midpoint and value, and beyond
  /// them.
  const std::vector<double>& positive() const { return positive_; }

private:
  size_t last() const { return positive_.size() - 1; }

  /// The position of the nearest value, to the even one from halfway; last() + 1 for what rounds beyond.
  size_t nearest(double x) const {
    const double beyond = 2 * positive_[last()] - positive_[last() - 1];
    if (x >= beyond) return last() + 1;
    size_t low = 0;
    while (low < last() && positive_[low + 1] <= x) ++low;
    const double above = low == last() ? beyond : positive_[low + 1];
    const double down = x - positive_[low], up = above - x; // exact: all are multiples of a small power of 2
    if (down != up) return down < up ? low : low + 1;
    return low % 2 == 0 ? low : low + 1;
  }

  uint8_t number(double x, bool saturates) const {
    const bool uz = dtype_ == DType::F8E4M3FNUZ || dtype_ == DType::F8E5M2FNUZ;
    const int sign = dtype_ == DType::F4E2M1 ? 8 : 0x80, minus = std::signbit(x) ? sign : 0;
    const int nan = uz ? 0x80 : dtype_ == DType::F8E4M3FN ? 0x7F : 0x7E;
    if (std::isnan(x)) return static_cast<uint8_t>(dtype_ == DType::F4E2M1 ? 0 : nan | minus);
    size_t code = nearest(std::fabs(x));
    if (code > last()) {
      if (saturates || dtype_ == DType::F4E2M1)
        code = last();
      else if (uz)
        return 0x80;
      else
        return static_cast<uint8_t>((dtype_ == DType::F8E5M2 ? 0x7C : 0x7F) | minus);
    }
    return static_cast<uint8_t>(uz && code == 0 ? 0 : static_cast<int>(code) | minus);
  }

  uint8_t scale(double x, NarrowCast how) const {
    if (std::isnan(x) || x < 0) return 255;
    if (x == 0) return how.saturates ? 0 : 255;
    for (int e = -128; e <= 128; ++e) { // of a power of 2 that x rounds to, the lowest first
      const double power = std::exp2(e), below = how.rounding == NarrowCast::Rounding::Up ? power / 2 : power;
      const bool here = how.rounding == NarrowCast::Rounding::Up     ? x > below && x <= power
                        : how.rounding == NarrowCast::Rounding::Down ? x >= power && x < 2 * power
                                                                     : x >= 0.75 * power && x < 1.5 * power;
      if (here && e >= -127 && e <= 127) return static_cast<uint8_t>(e + 127);
    }
    if (!how.saturates) return 255;
    return x < 1 ? 0 : 254;
  }

  DType dtype_;
  std::vector<double> positive_; // the finite values from 0 up, in the order of their codes
};

/// Numbers around everything at which a cast to the dtype changes its mind, of either sign, and special ones.
inline std::vector<double> probing_numbers(DType dtype) {
  const NearestCode nearest(dtype);
  std::vector<double> out;
  const auto around = [&](double v) {
    for (const double x :
         {v, std::nextafter(v, 0.0), std::nextafter(v, HUGE_VAL), v * (1 + 0x1p-20), v * (1 - 0x1p-20),
          static_cast<double>(std::nextafterf(static_cast<float>(v), 0.0f)),
          static_cast<double>(std::nextafterf(static_cast<float>(v), HUGE_VALF))}) {
      out.push_back(x);
      out.push_back(-x);
    }
  };
  const std::vector<double>& values = nearest.positive();
  for (size_t k = 0; k < values.size(); ++k) {
    around(values[k]);
    if (k > 0) around((values[k] + values[k - 1]) / 2);
  }
  const double last = values.back(), step = last - values[values.size() - 2];
  for (const double v :
       {last + step / 2, last + step, 2 * last, 4 * last, values[1] / 2, values[1] / 4, 0x1p-149, 0x1p-127,
        0x1.8p-127, 0x1.8p-128, 0x1p-128, 0x1.8p-126, 0x1.fffffep127, 0x1.8p127, 0x1p100, 1e9})
    around(v);
  for (const double v : {0.0, -0.0, HUGE_VAL, -HUGE_VAL, std::numeric_limits<double>::quiet_NaN(),
                         -std::numeric_limits<double>::quiet_NaN()})
    out.push_back(v);
  return out;
}

} // namespace lathe::test
