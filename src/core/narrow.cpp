#include "core/narrow.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace lathe {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

double float_value(const NarrowFloat& f, int code) {
  const int sign = code & f.sign(), magnitude = code & (f.sign() - 1);
  double value = 0;
  if (f.specials == NarrowFloat::Specials::MinusZeroIsNan && code == f.nan()) return kNan;
  if (magnitude > f.largest())
    value = f.specials == NarrowFloat::Specials::Ieee && magnitude == f.beyond() ? kInfinity : kNan;
  else if (const int exponent = magnitude >> f.mantissa_bits; exponent == 0)
    value = std::ldexp(magnitude, 1 - f.bias - f.mantissa_bits);
  else
    value = std::ldexp((magnitude & ((1 << f.mantissa_bits) - 1)) + (1 << f.mantissa_bits),
                       exponent - f.bias - f.mantissa_bits);
  return sign ? -value : value;
}

uint8_t float_code(const NarrowFloat& f, double value, bool saturates) {
  const bool signless_zero = f.specials == NarrowFloat::Specials::MinusZeroIsNan;
  if (std::isnan(value)) {
    if (f.specials == NarrowFloat::Specials::None) return 0;
    return static_cast<uint8_t>(f.nan() | (std::signbit(value) ? f.sign() : 0));
  }
  const double magnitude = std::fabs(value);
  const int exponent = std::max(magnitude > 0 ? std::ilogb(magnitude) : 1 - f.bias, 1 - f.bias);
  int code = f.largest() + 1;
  if (magnitude < std::ldexp(1.0, 1 << f.exponent_bits)) { // beyond the exponents of any code
    // Multiples of the last place; a carry out of the mantissa goes into the exponent.
    const int places = static_cast<int>(std::nearbyint(std::ldexp(magnitude, f.mantissa_bits - exponent)));
    code = ((exponent + f.bias - 1) << f.mantissa_bits) + places;
  }
  if (code > f.largest())
    code = saturates || f.specials == NarrowFloat::Specials::None ? f.largest() : f.beyond();
  if (signless_zero && (code == 0 || code == f.nan())) return static_cast<uint8_t>(code);
  return static_cast<uint8_t>(code | (std::signbit(value) ? f.sign() : 0));
}

uint8_t scale_code(double value, NarrowCast how) {
  using Rounding = NarrowCast::Rounding;
  if (std::isnan(value) || value < 0) return kScaleNan;
  if (value == 0) return how.saturates ? 0 : kScaleNan;
  int exponent = kScaleNan;
  if (std::isfinite(value)) {
    int power = 0;
    const double mantissa = 2 * std::frexp(value, &power); // in [1, 2), of 2^(power - 1)
    const bool up =
        how.rounding == Rounding::Up ? mantissa > 1 : how.rounding == Rounding::Nearest && mantissa >= 1.5;
    exponent = power - 1 + kScaleBias + up;
  }
  if (exponent >= 0 && exponent < kScaleNan) return static_cast<uint8_t>(exponent);
  return static_cast<uint8_t>(!how.saturates ? kScaleNan : exponent < 0 ? 0 : kScaleNan - 1);
}

} // namespace

double narrow_value(DType dtype, uint8_t code) {
  const int bits = bits_of(dtype), kept = code & ((1 << bits) - 1);
  if (is_unsigned(dtype)) return kept;
  if (is_signed(dtype)) return kept - (kept >> (bits - 1) << bits);
  if (dtype == DType::F8E8M0) return kept == kScaleNan ? kNan : std::ldexp(1.0, kept - kScaleBias);
  return float_value(narrow_float(dtype), kept);
}

uint8_t narrow_code(DType dtype, double value, NarrowCast how) {
  if (!is_float(dtype)) {
    const double kept = std::isnan(value) ? 0 : std::clamp(value, -0x1p31, 0x1p31 - 1); // as a cast to I32
    return static_cast<uint8_t>(static_cast<int64_t>(kept) & ((1 << bits_of(dtype)) - 1));
  }
  if (dtype == DType::F8E8M0) return scale_code(value, how);
  return float_code(narrow_float(dtype), value, how.saturates);
}

} // namespace lathe
