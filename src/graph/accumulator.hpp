// The dtype in which sums and products accumulate: 64 bits for bool and integers, as in NumPy; floats stay.
#pragma once
#include "lathe/dtype.hpp"

namespace lathe::graph {

inline DType accumulator(DType dtype) {
  if (dtype == DType::Bool || is_signed(dtype)) return DType::I64;
  return is_unsigned(dtype) ? DType::U64 : dtype;
}

} // namespace lathe::graph
