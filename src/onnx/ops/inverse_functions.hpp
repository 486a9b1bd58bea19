// Inverse trigonometric and hyperbolic functions, which the Tensor API leaves to be composed. Relative error
// of a few roundings; NaN outside their domains. Half precision is computed in f32.
#pragma once
#include "lathe/tensor.hpp"

namespace lathe::onnx {

Tensor asin(const Tensor& x);
Tensor acos(const Tensor& x);
Tensor atan(const Tensor& x);
Tensor asinh(const Tensor& x);
Tensor acosh(const Tensor& x);
Tensor atanh(const Tensor& x);

} // namespace lathe::onnx
