// The dtypes of reductions. Sums and products accumulate bool and integers in 64 bits, as in NumPy; floats stay.
#pragma once
#include "lathe/dtype.hpp"

namespace lathe::graph {

inline DType accumulator(DType dtype) {
  if (dtype == DType::Bool || is_signed(dtype)) return DType::I64;
  return is_unsigned(dtype) ? DType::U64 : dtype;
}

/// Of means and quantiles: integers are averaged in f64.
inline DType mean_dtype(DType dtype) { return is_float(dtype) ? dtype : DType::F64; }

} // namespace lathe::graph
