// The value that leaves every other value as it is when the two are combined. For sums of floats it is -0:
// the identity 0 would turn -0 into 0.
#pragma once
#include "core/op.hpp"

namespace lathe {

inline Scalar neutral(Op combine, DType dtype) {
  return combine == Op::Add && is_float(dtype) ? Scalar::of_float(dtype, -0.0) : identity(combine, dtype);
}

} // namespace lathe
