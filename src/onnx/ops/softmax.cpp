// Softmax and its like.
#include "onnx/ops/attributes.hpp"
#include "onnx/ops/tables.hpp"
#include "onnx/ops/values.hpp"

namespace lathe::onnx {
namespace {

/// Before opset 13 the axes from `axis` on are one; since then it is `axis` alone.
template <class Function> std::vector<Value> along(Call& call, Function&& function) {
  const Value value = call.value(0);
  const bool flattens = call.opset() < 13;
  const int axis = axis_attribute(call, flattens ? 1 : -1, value.rank());
  if (value.is_empty()) return {value}; // the largest of none has no place
  const Tensor x = value.tensor();
  if (!flattens || axis == x.rank() - 1) return {function(x, axis)};
  return {function(x.flatten(axis), axis).reshape(x.shape())};
}

/// 1 at the first of the largest along the axis, else 0.
Tensor one_hot_of_largest(const Tensor& x, int axis) {
  return (Tensor::iota(x.shape(), axis) == x.argmax(axis, true)).cast(x.dtype());
}

std::vector<Value> softmax(Call& call) {
  return along(call, [](const Tensor& x, int axis) { return x.softmax(axis); });
}
std::vector<Value> log_softmax(Call& call) {
  return along(call, [](const Tensor& x, int axis) { return x.log_softmax(axis); });
}
std::vector<Value> hardmax(Call& call) { return along(call, one_hot_of_largest); }

const OpRow kSoftmaxOps[] = {
    {"Softmax", 1, softmax},
    {"LogSoftmax", 1, log_softmax},
    {"Hardmax", 1, hardmax},
};

} // namespace

OpTable softmax_ops() { return kSoftmaxOps; }

} // namespace lathe::onnx
