// Images whose channels are the last axis, as ONNX Runtime lays them out for some devices.
#pragma once
#include "lathe/onnx/op.hpp"

namespace lathe::onnx {

/// [N, ..., C] as [N, C, ...].
inline Tensor channels_to_front(const Tensor& x) {
  Axes order{0, x.rank() - 1};
  for (int axis = 1; axis < x.rank() - 1; ++axis) order.push_back(axis);
  return x.permute(order);
}

/// [N, C, ...] as [N, ..., C].
inline Tensor channels_to_back(const Tensor& x) {
  Axes order{0};
  for (int axis = 2; axis < x.rank(); ++axis) order.push_back(axis);
  order.push_back(1);
  return x.permute(order);
}

/// Error(Shape) unless input `input` is [N, C, ...] or, with `last`, [N, ..., C]: as [N, C, ...].
inline Tensor image_operand(const Call& call, size_t input, bool last) {
  const Tensor x = call.tensor(input);
  if (x.rank() < 3)
    call.fail(ErrorKind::Shape, "input of shape " + to_string(x.shape()) + ", expected at least three axes");
  return last ? channels_to_front(x) : x;
}

} // namespace lathe::onnx
