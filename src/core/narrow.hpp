// Narrow dtypes: the formats of their codes, and exact conversions of single values.
#pragma once
#include "lathe/dtype.hpp"

namespace lathe {

/// A code is sign, exponent and mantissa, from the high bits down. Exponent 0 has no implicit one.
struct NarrowFloat {
  enum class Specials {
    None,      // every code is a number
    Ieee,      // the last exponent is infinity and NaNs
    LastIsNan, // the last code of either sign is NaN
    MinusZeroIsNan,
  };
  int exponent_bits, mantissa_bits, bias;
  Specials specials;
  constexpr int bits() const { return 1 + exponent_bits + mantissa_bits; }
  constexpr int sign() const { return 1 << (bits() - 1); }
  /// The code of the largest number.
  constexpr int largest() const {
    const int last = sign() - 1;
    return specials == Specials::Ieee        ? (((1 << exponent_bits) - 1) << mantissa_bits) - 1
           : specials == Specials::LastIsNan ? last - 1
                                             : last;
  }
  constexpr int nan() const {
    return specials == Specials::MinusZeroIsNan ? sign()
           : specials == Specials::Ieee         ? largest() + 1 + (1 << (mantissa_bits - 1))
                                                : sign() - 1;
  }
  /// What stands for a number beyond the largest one where casts do not saturate. Without a sign of its own
  /// if -0 is NaN.
  constexpr int beyond() const { return specials == Specials::Ieee ? largest() + 1 : nan(); }
};

/// The format of a narrow float other than f8e8m0, whose codes are exponents without sign or mantissa.
constexpr NarrowFloat narrow_float(DType dtype) {
  using enum NarrowFloat::Specials;
  switch (dtype) {
  case DType::F8E4M3FN: return {4, 3, 7, LastIsNan};
  case DType::F8E4M3FNUZ: return {4, 3, 8, MinusZeroIsNan};
  case DType::F8E5M2: return {5, 2, 15, Ieee};
  case DType::F8E5M2FNUZ: return {5, 2, 16, MinusZeroIsNan};
  default: return {2, 1, 1, None}; // f4e2m1
  }
}
inline constexpr int kScaleBias = 127, kScaleNan = 255; // of f8e8m0: a code is the exponent of a power of 2

/// The number that a code stands for; bits above the dtype's are ignored.
double narrow_value(DType dtype, uint8_t code);
/// The code of a number, rounded once. Of integers it is the low bits of the number cut towards zero. NaN is
/// 0 of integers and of f4e2m1, which has none.
uint8_t narrow_code(DType dtype, double value, NarrowCast how = {});

} // namespace lathe
