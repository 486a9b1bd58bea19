// Elementwise functions, softmax, means and joins of numbers of 8 bits.
#include <limits>

#include "onnx/ops/attributes.hpp"
#include "onnx/ops/microsoft/requantise.hpp"
#include "onnx/ops/microsoft/tables.hpp"
#include "onnx/ops/quantise.hpp"
#include "onnx/ops/values.hpp"

namespace lathe::onnx {
namespace {

// ---- of two operands ----

/// The innermost axis along which a or b, aligned at their last axes, has more than one element: whether a
/// has but one there.
bool is_constant_along_rows(const Tensor& a, const Tensor& b) {
  for (int axis = 1; axis <= std::max(a.rank(), b.rank()); ++axis) {
    const bool one_in_a = axis > a.rank() || a.size(-axis).is_const(1);
    const bool one_in_b = axis > b.rank() || b.size(-axis).is_const(1);
    if (one_in_a && one_in_b) continue;
    return one_in_a;
  }
  return false;
}

/// ONNX Runtime adds the part that is constant along a row first, and then what varies: each step is rounded.
std::vector<Value> quantised_add(Call& call) {
  const Quantity a = quantity(call, 0), b = quantity(call, 3);
  const Scaling c = scaling(call, 6, 7, a.values.dtype());
  const Tensor a_factor = quotient(a.scale, c.scale), b_factor = quotient(b.scale, c.scale);
  const Tensor zero = product_in_single(b_factor, b.zero_point);
  Tensor sum = c.zero_point.cast(DType::F32) - fused_in_single(a_factor, a.zero_point, zero);
  if (is_constant_along_rows(a.values, b.values)) {
    sum = fused_in_single(a.values, a_factor, sum);
    sum = fused_in_single(b.values, b_factor, sum);
  } else {
    sum = fused_in_single(b.values, b_factor, sum);
    sum = fused_in_single(a.values, a_factor, sum);
  }
  return {round_to(sum, c.zero_point.dtype())};
}

std::vector<Value> quantised_multiply(Call& call) {
  const Quantity a = quantity(call, 0), b = quantity(call, 3);
  const Scaling c = scaling(call, 6, 7, a.values.dtype());
  const Tensor factor = quotient(product_in_single(a.scale, b.scale), c.scale);
  const Tensor product = saturating_product(a.centred() * b.centred(), factor);
  return {round_to(product + c.zero_point.cast(DType::F32), c.zero_point.dtype())};
}

// ---- of one ----

std::vector<Value> quantised_sigmoid(Call& call) {
  const Quantity x = quantity(call, 0);
  const Scaling y = scaling(call, 3, 4, x.values.dtype());
  return {quantise(x.real().cast(DType::F64).sigmoid().cast(DType::F32), y.scale, y.zero_point)};
}

std::vector<Value> quantised_leaky_relu(Call& call) {
  const Quantity x = quantity(call, 0);
  const Scaling y = scaling(call, 3, 4, x.values.dtype());
  const Tensor real = x.real(), slope = weak(call.number("alpha", 0.01f), DType::F32);
  return {quantise(where(real >= 0.0, real, product_in_single(real, slope)), y.scale, y.zero_point)};
}

/// ONNX Runtime looks exponentials up in a table of f32 that holds exp(x + a constant), as large as their sum
/// allows. The constant cancels, but for the roundings of the entries. An entry for each distance to the
/// largest number.
Tensor exponentials_of(const Quantity& x, int axis) {
  // Of one number alone, the product with up to 256 steps would overflow.
  const Tensor count = Tensor::scalar(x.values.size(axis)).cast(DType::F32).clamp(2.0, {});
  const Tensor largest = quotient(weak(double{std::numeric_limits<float>::max()}, DType::F32), count);
  const Tensor scale = x.scale.cast(DType::F64);
  const Tensor shift = (largest.cast(DType::F64).log() - 5.0).clamp(0.0, {}) / scale;
  const Tensor table = ((shift - Tensor::arange(256).cast(DType::F64)) * scale).exp().cast(DType::F32);
  const Tensor integers = x.values.cast(DType::I32);
  return table.take((integers.max(axis, true) - integers).cast(DType::U8).cast(DType::I32));
}

std::vector<Value> quantised_softmax(Call& call) {
  const Quantity given = quantity(call, 0);
  const Scaling y = scaling(call, 3, 4, given.values.dtype());
  const bool flattens = call.integer("opset") < 13; // the axes from `axis` on are one
  const int axis = axis_attribute(call, -1, given.values.rank());
  const Quantity x{flattens ? given.values.flatten(axis) : given.values, given.scale, given.zero_point};
  const Tensor exponentials = exponentials_of(x, axis);
  const Tensor total = exponentials.cast(DType::F64).sum(axis, true).cast(DType::F32);
  const Tensor steps = quotient(weak(1.0, DType::F32), y.scale).floor(); // in 1, whole as ONNX Runtime has it
  const Tensor result = rounded_around(quotient(product_in_single(exponentials, steps), total), y.zero_point);
  return {result.reshape(given.values.shape())};
}

std::vector<Value> quantised_mean(Call& call) {
  const Quantity x = quantity(call, 0);
  const Scaling y = scaling(call, 3, 4, x.values.dtype());
  const std::vector<int> axes = normalise_axes(call, call.integers("axes"), x.values.rank());
  const bool keeps = call.integer("keepdims") != 0;
  const Tensor mean = x.centred().mean(axes, keeps); // f64
  return {quantise((mean * x.scale.cast(DType::F64)).cast(DType::F32), y.scale, y.zero_point)};
}

// ---- of several ----

std::vector<Value> quantised_where(Call& call) {
  const Quantity x = quantity(call, 1), y = quantity(call, 4);
  const Scaling z = scaling(call, 7, 8, x.values.dtype());
  return {quantise(where(call.tensor(0), x.real(), y.real()), z.scale, z.zero_point)};
}

std::vector<Value> quantised_concat(Call& call) {
  if (call.input_count() < 5 || call.input_count() % 3 != 2)
    call.fail(ErrorKind::Value, std::to_string(call.input_count()) +
                                    " inputs, expected the output's scale and zero point, then three each");
  const Scaling y = scaling(call, 0, 1, call.tensor(1).dtype());
  std::vector<Value> parts;
  for (size_t input = 2; input < call.input_count(); input += 3)
    parts.emplace_back(quantise(quantity(call, input).real(), y.scale, y.zero_point));
  return {concat_values(call, parts, normalise_axis(call, call.integer("axis"), parts[0].rank()))};
}

const OpRow kMicrosoftElementwiseQuantisedOps[] = {
    {"QLinearAdd", 1, quantised_add, kMicrosoft, 8},
    {"QLinearMul", 1, quantised_multiply, kMicrosoft, 8},
    {"QLinearSigmoid", 1, quantised_sigmoid, kMicrosoft, 5},
    {"QLinearLeakyRelu", 1, quantised_leaky_relu, kMicrosoft, 5},
    {"QLinearSoftmax", 1, quantised_softmax, kMicrosoft, 5},
    {"QLinearReduceMean", 1, quantised_mean, kMicrosoft, 5},
    {"QLinearWhere", 1, quantised_where, kMicrosoft, 9},
    {"QLinearConcat", 1, quantised_concat, kMicrosoft},
};

} // namespace

OpTable microsoft_elementwise_quantised_ops() { return kMicrosoftElementwiseQuantisedOps; }

} // namespace lathe::onnx
