#include "onnx/ops/broadcast.hpp"

#include <algorithm>

#include "onnx/ops/attributes.hpp"
#include "onnx/ops/values.hpp"

namespace lathe::onnx {
std::pair<Value, Value> broadcast_operands(Call& call) {
  Value a = call.value(0), b = call.value(1);
  if (call.opset() >= 7) return {a, b};
  call.ignore("broadcast"); // shapes say whether to
  call.ignore("consumed_inputs");
  if (!call.has_attribute("axis")) return {a, b};
  const int axis = normalise_axis(call, call.integer("axis"), a.rank());
  if (!b.is_tensor() || axis + b.rank() > a.rank()) return {a, b};
  Shape shape = b.shape();
  shape.resize(static_cast<size_t>(a.rank() - axis), Expr(1));
  return {a, Value(b.tensor().reshape(shape))};
}

Value elementwise(const Call& call, const std::vector<Value>& operands, const TensorFunction& function) {
  for (const Value& v : operands)
    if (!v.is_tensor()) call.fail(ErrorKind::Value, "an input is no tensor, expected tensors only");
  std::vector<Tensor> tensors;
  for (const Value& v : operands) tensors.push_back(v.tensor());
  return function(tensors);
}

Tensor along_axis(const Tensor& parameter, int axis, int rank) {
  if (parameter.rank() != 1 || axis < 0 || axis >= rank)
    throw Error(ErrorKind::Shape, "a parameter of " + to_string(parameter.shape()) + " for axis " +
                                      std::to_string(axis) + " of " + std::to_string(rank) +
                                      ", expected one number for each of the axis' positions");
  Shape shape(static_cast<size_t>(rank), Expr(1));
  shape[static_cast<size_t>(axis)] = parameter.shape()[0];
  return parameter.reshape(shape);
}

} // namespace lathe::onnx
