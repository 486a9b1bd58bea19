// Comparisons, logic and bits.
#include "onnx/ops/broadcast.hpp"
#include "onnx/ops/tables.hpp"

namespace lathe::onnx {
namespace {

using BinaryTensor = Tensor (*)(const Tensor&, const Tensor&);

std::vector<Value> same_dtype(Call& call, BinaryTensor function) {
  const auto [a, b] = broadcast_operands(call);
  return {elementwise(call, {a, b}, [&](const std::vector<Tensor>& t) { return function(t[0], t[1]); })};
}

std::vector<Value> truth(Call& call, BinaryTensor function) {
  const auto [a, b] = broadcast_operands(call);
  return {elementwise(call, {a, b}, [&](const std::vector<Tensor>& t) { return function(t[0], t[1]); })};
}

template <BinaryTensor function> std::vector<Value> truth_of(Call& call) { return truth(call, function); }

std::vector<Value> logical_xor(Call& call) {
  return truth(call, [](const Tensor& a, const Tensor& b) { return a != b; });
}
std::vector<Value> equal(Call& call) {
  return truth(call, [](const Tensor& a, const Tensor& b) { return a == b; });
}
std::vector<Value> less(Call& call) {
  return truth(call, [](const Tensor& a, const Tensor& b) { return a < b; });
}
std::vector<Value> less_or_equal(Call& call) {
  return truth(call, [](const Tensor& a, const Tensor& b) { return a <= b; });
}
std::vector<Value> greater(Call& call) {
  return truth(call, [](const Tensor& a, const Tensor& b) { return a > b; });
}
std::vector<Value> greater_or_equal(Call& call) {
  return truth(call, [](const Tensor& a, const Tensor& b) { return a >= b; });
}
std::vector<Value> logical_not(Call& call) {
  return {
      elementwise(call, {call.value(0)}, [](const std::vector<Tensor>& t) { return t[0].logical_not(); })};
}

std::vector<Value> bit_shift(Call& call) {
  const std::string direction = call.text("direction");
  if (direction == "LEFT") return same_dtype(call, [](const Tensor& a, const Tensor& b) { return a << b; });
  if (direction == "RIGHT") return same_dtype(call, [](const Tensor& a, const Tensor& b) { return a >> b; });
  call.fail(ErrorKind::Value, "direction \"" + direction + "\", expected \"LEFT\" or \"RIGHT\"");
}

std::vector<Value> bitwise_and(Call& call) {
  return same_dtype(call, [](const Tensor& a, const Tensor& b) { return a & b; });
}
std::vector<Value> bitwise_or(Call& call) {
  return same_dtype(call, [](const Tensor& a, const Tensor& b) { return a | b; });
}
std::vector<Value> bitwise_xor(Call& call) {
  return same_dtype(call, [](const Tensor& a, const Tensor& b) { return a ^ b; });
}
std::vector<Value> bitwise_not(Call& call) {
  const Value x = call.value(0);
  return {elementwise(call, {x}, [](const std::vector<Tensor>& t) { return t[0].bitwise_not(); })};
}

std::vector<Value> is_nan(Call& call) {
  return {elementwise(call, {call.value(0)}, [](const std::vector<Tensor>& t) { return t[0].isnan(); })};
}

std::vector<Value> is_infinite(Call& call) {
  const bool negative = call.integer("detect_negative", 1) != 0;
  const bool positive = call.integer("detect_positive", 1) != 0;
  return {elementwise(call, {call.value(0)}, [&](const std::vector<Tensor>& t) {
    const Tensor& x = t[0];
    if (negative && positive) return x.isinf();
    if (negative) return x.isinf() & (x < 0.0);
    if (positive) return x.isinf() & (x > 0.0);
    return Tensor::zeros(x.shape(), DType::Bool);
  })};
}

std::vector<Value> where(Call& call) {
  const Value condition = call.value(0), a = call.value(1), b = call.value(2);
  return {elementwise(call, {condition, a, b},
                      [](const std::vector<Tensor>& t) { return lathe::where(t[0], t[1], t[2]); })};
}

const OpRow kLogicalOps[] = {
    {"And", 1, truth_of<lathe::logical_and>},
    {"Or", 1, truth_of<lathe::logical_or>},
    {"Xor", 1, logical_xor},
    {"Not", 1, logical_not},
    {"Equal", 1, equal},
    {"Greater", 1, greater},
    {"GreaterOrEqual", 12, greater_or_equal},
    {"Less", 1, less},
    {"LessOrEqual", 12, less_or_equal},
    {"BitShift", 11, bit_shift},
    {"BitwiseAnd", 18, bitwise_and},
    {"BitwiseOr", 18, bitwise_or},
    {"BitwiseXor", 18, bitwise_xor},
    {"BitwiseNot", 18, bitwise_not},
    {"IsNaN", 9, is_nan},
    {"IsInf", 10, is_infinite},
    {"Where", 9, where},
};

} // namespace

OpTable logical_ops() { return kLogicalOps; }

} // namespace lathe::onnx
