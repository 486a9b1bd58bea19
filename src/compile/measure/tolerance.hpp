// How far a right result may be from that of exact arithmetic, because of rounding. Candidates, benchmarks
// and tests are all judged by this file.
//
// Integers, comparisons and moved data are exact. A float sum of whole numbers is exact, in any order, if
// their sizes add up to at most 2^digits of the dtype. Any other sum of n terms may be off by
// unit_roundoff * sqrt(n) * (the sum of the terms' sizes): roundings are as often up as down. A part that is
// left out or added twice shows if it is larger than that.
#pragma once
#include <algorithm>
#include <cmath>

#include "core/float_format.hpp"

namespace lathe::pipeline {

/// Half a unit in the last place of 1: the error of one rounding, relative to the result.
inline double unit_roundoff(DType dtype) { return std::ldexp(1.0, -digits(dtype)); }
/// Half the least number above 0: the error of one rounding of a subnormal result.
constexpr double least_error(DType dtype) {
  switch (dtype) {
  case DType::F64: return 0x1p-1074;
  case DType::F16: return 0x1p-25;
  case DType::BF16: return 0x1p-134;
  default: return 0x1p-150;
  }
}

/// Units in the last place; error of exp2, log2, sin and cos on any device, and of recognised functions that
/// are made of two of them. docs/numbers.md gives the error of each.
constexpr double kFunctionUlps = 4;
/// Roundings of a sum in addition to sqrt(terms): a sum of few terms may round more often than that.
constexpr double kSumUlps = 4;

/// Returns the largest error of a sum that is kept in `dtype`. `size` is the sum of the sizes of its terms.
inline double sum_error(DType dtype, double terms, double size) {
  return unit_roundoff(dtype) * std::min(terms, std::sqrt(terms) + kSumUlps) * size;
}
/// Returns whether a sum of whole numbers is exact in any order.
inline bool sum_is_exact(DType dtype, double size) { return size <= std::ldexp(1.0, digits(dtype)); }

} // namespace lathe::pipeline
