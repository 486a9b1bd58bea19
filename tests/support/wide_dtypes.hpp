// The dtypes that programs compute in, to try a function with each of them.
#pragma once
#include <cmath>
#include <type_traits>

#include "lathe/dtype.hpp"

namespace lathe::test {

inline constexpr DType kAll[] = {DType::Bool, DType::I8,  DType::I16, DType::I32, DType::I64,
                                 DType::U8,   DType::U16, DType::U32, DType::U64, DType::F16,
                                 DType::BF16, DType::F32, DType::F64};

template <class T> bool is_nan(T x) {
  if constexpr (std::is_floating_point_v<T>) return std::isnan(x);
  return false;
}

} // namespace lathe::test
