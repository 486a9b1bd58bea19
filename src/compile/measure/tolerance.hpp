// How far rounding may put a right result from what exact arithmetic gives. The one place that says so:
// candidates, benchmarks and tests are all judged by it.
//
// Integers, comparisons and moved data are exact. So is a float sum of whole numbers whose sizes add up to no
// more than the dtype counts, in whatever order it adds. Any other sum of n terms may be off by
// unit_roundoff * sqrt(n) * (the sum of the terms' sizes): roundings are as often up as down. A left-out or
// doubled part shows if it is larger than that.
#pragma once
#include <algorithm>
#include <cmath>

#include "core/float_format.hpp"

namespace lathe::pipeline {

/// Half a unit in the last place of 1: what one rounding adds, relative to the result.
inline double unit_roundoff(DType dtype) { return std::ldexp(1.0, -digits(dtype)); }
/// Half the least number above 0: what one rounding adds where results are subnormal.
constexpr double least_error(DType dtype) {
  switch (dtype) {
  case DType::F64: return 0x1p-1074;
  case DType::F16: return 0x1p-25;
  case DType::BF16: return 0x1p-134;
  default: return 0x1p-150;
  }
}

/// Units in the last place of exp2, log2, sin and cos on any device, and of functions that are recognised as
/// made of two of them; docs/numbers.md gives what each keeps.
constexpr double kFunctionUlps = 4;
/// Roundings that any sum may add besides: few terms round more than the square root of their number says.
constexpr double kSumUlps = 4;

/// Of a sum that is kept in `dtype`. `size` is the sum of the sizes of its terms.
inline double sum_error(DType dtype, double terms, double size) {
  return unit_roundoff(dtype) * std::min(terms, std::sqrt(terms) + kSumUlps) * size;
}
/// Whether a sum of whole numbers is exact in any order.
inline bool sum_is_exact(DType dtype, double size) { return size <= std::ldexp(1.0, digits(dtype)); }

} // namespace lathe::pipeline
