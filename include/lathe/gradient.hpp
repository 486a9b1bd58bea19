// Derivatives of lazy tensors, in reverse mode. The result is graph like any other: it is compiled, fused and tuned
// with the program it belongs to, and can be differentiated again.
//
//   Tensor w = Tensor::input("w", {4}), x = Tensor::input("x", {9, 4});
//   Tensor loss = x.matmul(w).square().mean();
//   Tensor dw = gradients(loss, {w})[0];   // of w's shape and dtype
//
// Where a function has no derivative, one is chosen: equal operands of maximum, and equal largest elements of max,
// share it evenly (so relu has 1/2 at 0); rounding, comparisons, integers and bits have none, which is 0.
//
// What a tensor is, decides where derivatives flow. Equal expressions are one tensor. A realised tensor is data: what
// was built from it before it was realised still leads to what it was computed from; what is built from it afterwards
// does not.
#pragma once
#include <optional>
#include <vector>

#include "lathe/tensor.hpp"

namespace lathe {

/// The derivative of the sum of y's elements (of y * dy, if dy is given, of y's shape and dtype) by each of xs, of its
/// shape and dtype: zeros where y does not depend on it. xs are inputs, realised tensors, or tensors on the way to y.
///
/// Error(DType) unless y and xs are floats, dy of y's dtype. Error(Shape) unless dy has y's shape. Error(Value) for
/// what has no identity of its own in y's graph: an x that is a constant, or a view (a movement of another tensor)
/// where other views of the same tensor lead to y, as views of views are joined; and for a y that holds data alone, as
/// it was realised.
std::vector<Tensor> gradients(const Tensor& y, const std::vector<Tensor>& xs, const std::optional<Tensor>& dy = {});

}  // namespace lathe
