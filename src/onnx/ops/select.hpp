// Elements chosen by a mask that the program computes: their number is looked at, the rest is tensor
// arithmetic.
#pragma once
#include "lathe/onnx/op.hpp"

namespace lathe::onnx {

/// Where a mask of one axis is true, ascending, i64.
Value true_positions(Call& call, const Tensor& mask);
/// Of the `count` elements where a mask of one axis is true, the positions: each at its place among them.
Tensor positions_at(const Tensor& mask, const Tensor& places, int64_t count);

} // namespace lathe::onnx
