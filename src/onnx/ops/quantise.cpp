// Quantised ops: integers that stand for (value - zero point) * scale.
#include <algorithm>

#include "onnx/ops/attributes.hpp"
#include "onnx/ops/broadcast.hpp"
#include "onnx/ops/spatial.hpp"
#include "onnx/ops/tables.hpp"

namespace lathe::onnx {
namespace {

/// A scale or zero point: one for all, or one for each place along the axis.
Tensor spread(const Tensor& parameter, int axis, int rank) {
  if (parameter.rank() != 1) return parameter;
  if (parameter.shape()[0].is_const(1)) return parameter.reshape({});
  return along_axis(parameter, axis, rank);
}

/// The axis of scales that are not one for all; where they are, the attribute has no bearing, and may not fit
/// x.
int quantised_axis(Call& call, const Tensor& scale, int rank) {
  const bool one_for_all = scale.rank() == 0 || scale.shape()[0].is_const(1);
  const int64_t axis = call.integer("axis", 1);
  return one_for_all ? 0 : normalise_axis(call, axis, rank);
}

/// Rounded once. In f32 a divisor that is a constant or computed beforehand multiplies by its rounded
/// inverse, and quotients next to a half would go the other way.
Tensor quotient(const Tensor& x, const Tensor& divisor) {
  return (x.cast(DType::F64) / divisor.cast(DType::F64)).cast(x.dtype());
}

/// Rounds half to even; the cast saturates.
Tensor quantise(const Tensor& x, const Tensor& scale, const Tensor& zero_point) {
  return (quotient(x, scale).round() + zero_point.cast(x.dtype())).cast(zero_point.dtype());
}

Tensor zero_of(DType dtype) { return Tensor::zeros({}, dtype); }

/// Input `input` as a difference to its zero point, input `zero_point`, in I32.
Tensor centred(Call& call, size_t input, size_t zero_point, int axis) {
  const Tensor x = call.tensor(input).cast(DType::I32);
  const std::optional<Tensor> zero = call.optional_tensor(zero_point);
  return zero ? x - spread(*zero, axis, x.rank()).cast(DType::I32) : x;
}

// ---- from and to floats ----

std::vector<Value> quantise_linear(Call& call) {
  call.ignore("saturate"); // of 8-bit floats
  const Tensor input = call.tensor(0), scale = call.tensor(1);
  const Tensor zero_point = call.optional_tensor(2).value_or(zero_of(DType::U8));
  const int axis = quantised_axis(call, scale, input.rank());
  const Tensor x = is_float(input.dtype()) ? input : input.cast(DType::F32);
  return {quantise(x, spread(scale, axis, x.rank()), spread(zero_point, axis, x.rank()))};
}

std::vector<Value> dequantise_linear(Call& call) {
  const Tensor scale = call.tensor(1);
  const int rank = call.tensor(0).rank(), axis = quantised_axis(call, scale, rank);
  return {centred(call, 0, 2, axis).cast(scale.dtype()) * spread(scale, axis, rank)};
}

std::vector<Value> dynamic_quantise_linear(Call& call) {
  const Tensor x = call.tensor(0), zero = zero_of(x.dtype());
  // The range takes in 0, so that 0 is exact.
  const Tensor low = minimum(x.min(), zero), high = maximum(x.max(), zero);
  // Of zeros any scale will do.
  const Tensor range = quotient(high - low, weak(255.0, x.dtype()));
  const Tensor scale = where(range == 0.0, weak(1.0, x.dtype()), range);
  const Tensor zero_point = quotient(-low, scale).round().cast(DType::U8);
  return {quantise(x, scale, zero_point), scale, zero_point};
}

// ---- products ----

/// Of [..., M, K], one zero point for each row lies along M.
Tensor centred_rows(Call& call, size_t input, size_t zero_point) {
  return centred(call, input, zero_point, std::max(call.tensor(input).rank() - 2, 0));
}
Tensor centred_columns(Call& call, size_t input, size_t zero_point) {
  return centred(call, input, zero_point, call.tensor(input).rank() - 1);
}

std::vector<Value> matmul_integer(Call& call) {
  return {centred_rows(call, 0, 2).matmul(centred_columns(call, 1, 3)).cast(DType::I32)};
}

std::vector<Value> quantised_matmul(Call& call) {
  const Tensor sums = centred_rows(call, 0, 2).matmul(centred_columns(call, 3, 5)).cast(DType::F32);
  const Tensor row_scale = spread(call.tensor(1), std::max(sums.rank() - 2, 0), sums.rank());
  const Tensor column_scale = spread(call.tensor(4), sums.rank() - 1, sums.rank());
  const Tensor scale = call.tensor(6), zero_point = call.tensor(7);
  return {quantise(sums * (row_scale * column_scale).cast(DType::F32), scale.reshape({}),
                   zero_point.reshape({}))};
}

std::vector<Value> conv_integer(Call& call) {
  return {convolve(call, centred(call, 0, 2, 1), centred(call, 1, 3, 0)).cast(DType::I32)};
}

std::vector<Value> quantised_conv(Call& call) {
  Tensor sums = convolve(call, centred(call, 0, 2, 1), centred(call, 3, 5, 0), call.optional_tensor(8));
  sums = sums.cast(DType::F32);
  const Tensor x_scale = call.tensor(1).reshape({});
  const Tensor weight_scale = spread(call.tensor(4), 1, sums.rank());
  const Tensor scale = call.tensor(6).reshape({}), zero_point = call.tensor(7).reshape({});
  return {quantise(sums * (x_scale * weight_scale), scale, zero_point)};
}

const OpRow rows[] = {
    {"QuantizeLinear", 10, quantise_linear},
    {"DequantizeLinear", 10, dequantise_linear},
    {"DynamicQuantizeLinear", 11, dynamic_quantise_linear},
    {"MatMulInteger", 10, matmul_integer},
    {"QLinearMatMul", 10, quantised_matmul},
    {"ConvInteger", 10, conv_integer},
    {"QLinearConv", 10, quantised_conv},
};

} // namespace

OpTable quantise_ops() { return rows; }

} // namespace lathe::onnx
