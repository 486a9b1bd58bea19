// Functions of one number and arithmetic of several.
#include "onnx/ops/broadcast.hpp"
#include "onnx/ops/tables.hpp"
#include "onnx/ops/values.hpp"

namespace lathe::onnx {
namespace {

// ---- of one number ----

Value map(Call& call, const TensorFunction& function) {
  call.ignore("consumed_inputs"); // of opset 1
  const Value x = call.value(0);
  return elementwise(call, {x}, [&](const std::vector<Tensor>& t) { return function(t).cast(x.dtype()); });
}

template <Tensor (Tensor::*function)() const> std::vector<Value> member(Call& call) {
  return {map(call, [](const std::vector<Tensor>& t) { return (t[0].*function)(); })};
}

// ---- of two ----

using BinaryTensor = Tensor (*)(const Tensor&, const Tensor&);

void check_dtypes_equal(const Call& call, const Value& a, const Value& b) {
  if (a.is_tensor() && b.is_tensor() && a.dtype() != b.dtype())
    call.fail(ErrorKind::DType, std::string(to_string(a.dtype())) + " and " + to_string(b.dtype()) +
                                    ", expected operands of one dtype");
}

enum class Dtypes { Equal, Any };

std::vector<Value> binary(Call& call, BinaryTensor function, Dtypes dtypes = Dtypes::Equal) {
  const auto [a, b] = broadcast_operands(call);
  if (dtypes == Dtypes::Equal) check_dtypes_equal(call, a, b);
  return {elementwise(call, {a, b}, [&](const std::vector<Tensor>& t) { return function(t[0], t[1]); })};
}

std::vector<Value> add(Call& call) {
  return binary(call, [](const Tensor& a, const Tensor& b) { return a + b; });
}
std::vector<Value> sub(Call& call) {
  return binary(call, [](const Tensor& a, const Tensor& b) { return a - b; });
}
std::vector<Value> mul(Call& call) {
  return binary(call, [](const Tensor& a, const Tensor& b) { return a * b; });
}

Tensor signs_differ(const Tensor& a, const Tensor& b) { return (a < 0) != (b < 0); }

/// Rounds towards zero, where floor_divide() rounds down.
Tensor truncating_divide(const Tensor& a, const Tensor& b) {
  const Tensor quotient = floor_divide(a, b);
  if (is_unsigned(a.dtype())) return quotient;
  return where((a % b != 0) & signs_differ(a, b), quotient + 1, quotient);
}

/// A value of one element that no input changes, as a number; else the value itself. Exponents and divisors of
/// exporters lie in the file as data. Known, a power is a few products, and a quotient of integers a product.
Tensor known_number(const Tensor& value) {
  if (!num_elements(value.shape()).is_const(1) || is_narrow(value.dtype()) || !is_constant(value))
    return value;
  return Tensor::full(value.shape(), value.item_scalar());
}

std::vector<Value> div(Call& call) {
  return binary(call, [](const Tensor& a, const Tensor& b) {
    const Tensor divisor = known_number(b);
    return is_float(a.dtype()) ? a / divisor : truncating_divide(a, divisor);
  });
}

/// The remainder with the sign of the dividend.
Tensor truncating_remainder(const Tensor& a, const Tensor& b) {
  if (is_unsigned(a.dtype())) return a % b;
  if (is_float(a.dtype())) {
    // An infinite divisor leaves all of the dividend, where % would give NaN.
    const Tensor remainder = where(b.isinf() & a.isfinite(), a.abs(), a.abs() % b.abs());
    return where(a < 0.0, -remainder, remainder);
  }
  const Tensor remainder = a % b;
  return where((remainder != 0) & signs_differ(a, b), remainder - b, remainder);
}

std::vector<Value> mod(Call& call) {
  if (call.integer("fmod", 0) != 0)
    return binary(call,
                  [](const Tensor& a, const Tensor& b) { return truncating_remainder(a, known_number(b)); });
  return binary(call, [](const Tensor& a, const Tensor& b) { return a % known_number(b); });
}

/// A power of integers by a float: a whole exponent gives a whole result, which must not be truncated from
/// just below.
Tensor power_of_integer(const Tensor& base, const Tensor& exponent) {
  const Tensor e = exponent.cast(DType::F64), power = lathe::pow(base.cast(DType::F64), e);
  return where(e == e.trunc(), power.round(), power).cast(base.dtype());
}

std::vector<Value> pow(Call& call) {
  return binary(call, [](const Tensor& base, const Tensor& given) {
    const Tensor exponent = known_number(given);
    if (!is_float(base.dtype()) && is_float(exponent.dtype())) return power_of_integer(base, exponent);
    return lathe::pow(base, exponent.cast(base.dtype()));
  }, Dtypes::Any);
}

// ---- of many ----

template <class Combine> Tensor combine_all(const std::vector<Tensor>& tensors, Combine&& combine) {
  Tensor result = tensors[0];
  for (size_t i = 1; i < tensors.size(); ++i) result = combine(result, tensors[i]);
  return result;
}

std::vector<Value> variadic(Call& call, const TensorFunction& function) {
  call.ignore("consumed_inputs"); // of opset 1
  std::vector<Value> operands;
  for (size_t i = 0; i < call.input_count(); ++i) operands.push_back(call.value(i));
  if (operands.empty()) call.fail(ErrorKind::Value, "no inputs, expected at least one");
  for (const Value& operand : operands) check_dtypes_equal(call, operands[0], operand);
  return {elementwise(call, operands, function)};
}

std::vector<Value> max(Call& call) {
  return variadic(call, [](const std::vector<Tensor>& t) { return combine_all(t, maximum); });
}
std::vector<Value> min(Call& call) {
  return variadic(call, [](const std::vector<Tensor>& t) { return combine_all(t, minimum); });
}
Tensor sum_of(const std::vector<Tensor>& tensors) {
  return combine_all(tensors, [](const Tensor& a, const Tensor& b) { return a + b; });
}
std::vector<Value> sum(Call& call) { return variadic(call, sum_of); }
std::vector<Value> mean(Call& call) {
  return variadic(call, [](const std::vector<Tensor>& t) {
    return sum_of(t) / weak(static_cast<double>(t.size()), t[0].dtype());
  });
}

const OpRow kElementwiseOps[] = {
    {"Abs", 1, member<&Tensor::abs>},
    {"Acos", 1, member<&Tensor::acos>},
    {"Acosh", 1, member<&Tensor::acosh>},
    {"Asin", 1, member<&Tensor::asin>},
    {"Asinh", 1, member<&Tensor::asinh>},
    {"Atan", 1, member<&Tensor::atan>},
    {"Atanh", 1, member<&Tensor::atanh>},
    {"Ceil", 1, member<&Tensor::ceil>},
    {"Cos", 1, member<&Tensor::cos>},
    {"Cosh", 1, member<&Tensor::cosh>},
    {"Erf", 1, member<&Tensor::erf>},
    {"Exp", 1, member<&Tensor::exp>},
    {"Floor", 1, member<&Tensor::floor>},
    {"Log", 1, member<&Tensor::log>},
    {"Neg", 1, member<&Tensor::neg>},
    {"Reciprocal", 1, member<&Tensor::reciprocal>},
    {"Round", 1, member<&Tensor::round>},
    {"Sign", 1, member<&Tensor::sign>},
    {"Sin", 1, member<&Tensor::sin>},
    {"Sinh", 1, member<&Tensor::sinh>},
    {"Sqrt", 1, member<&Tensor::sqrt>},
    {"Tan", 1, member<&Tensor::tan>},
    {"Tanh", 1, member<&Tensor::tanh>},
    {"Add", 1, add},
    {"Sub", 1, sub},
    {"Mul", 1, mul},
    {"Div", 1, div},
    {"Mod", 10, mod},
    {"Pow", 1, pow},
    {"Max", 1, max},
    {"Min", 1, min},
    {"Sum", 1, sum},
    {"Mean", 1, mean},
};

} // namespace

OpTable elementwise_ops() { return kElementwiseOps; }

} // namespace lathe::onnx
