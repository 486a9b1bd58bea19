// What elementwise ops share: broadcasting as old and new models ask for it.
#pragma once
#include <functional>
#include <utility>
#include <vector>

#include "lathe/onnx/op.hpp"

namespace lathe::onnx {

/// Inputs 0 and 1. Before opset 7 the attribute `axis` says along which axes of the first the second lies.
std::pair<Value, Value> broadcast_operands(Call& call);

using TensorFunction = std::function<Tensor(const std::vector<Tensor>&)>;

/// A function of each element, which broadcasts as NumPy does. Error(Value) for an operand that is no tensor.
Value elementwise(const Call& call, const std::vector<Value>& operands, const TensorFunction& function);

/// f32 for half precision, else the dtype itself.
inline DType at_least_single(DType dtype) { return is_half(dtype) ? DType::F32 : dtype; }

/// Half precision is computed in f32 and rounded once.
template <class Function> Tensor in_single(const Tensor& x, Function&& function) {
  return function(x.cast(at_least_single(x.dtype()))).cast(x.dtype());
}

/// [C] as [1, C, 1, ...], to lie along `axis` of a tensor of `rank` axes.
Tensor along_axis(const Tensor& parameter, int axis, int rank);

} // namespace lathe::onnx
