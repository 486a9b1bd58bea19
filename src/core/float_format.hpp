// What the float dtypes look like inside.
#pragma once
#include "lathe/dtype.hpp"

namespace lathe {

/// Bits of the significand, the leading one included: whole numbers up to 2^digits are exact. Of any other
/// dtype those of f32.
constexpr int digits(DType dtype) {
  switch (dtype) {
  case DType::F64: return 53;
  case DType::F16: return 11;
  case DType::BF16: return 8;
  default: return 24;
  }
}

} // namespace lathe
