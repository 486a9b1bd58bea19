// The binary formats of the float dtypes.
#pragma once
#include "lathe/dtype.hpp"

namespace lathe {

/// The bits of the significand, with the leading one: whole numbers up to 2^digits are exact. Other dtypes
/// give the bits of f32.
constexpr int digits(DType dtype) {
  switch (dtype) {
  case DType::F64: return 53;
  case DType::F16: return 11;
  case DType::BF16: return 8;
  default: return 24;
  }
}

} // namespace lathe
