// Products of quantised matrices, sums and products of integers.
#include "onnx/ops/attributes.hpp"
#include "onnx/ops/microsoft/requantise.hpp"
#include "onnx/ops/microsoft/tables.hpp"
#include "onnx/ops/quantise.hpp"

namespace lathe::onnx {
namespace {

/// Without input 7, a scale, the result is of floats.
std::vector<Value> quantised_gemm(Call& call) {
  const bool transposes_a = call.integer("transA", 0) != 0, transposes_b = call.integer("transB", 0) != 0;
  const Tensor alpha = weak(call.number("alpha", 1.0), DType::F32);
  const Quantity a = quantity(call, 0);
  const Tensor b = centred(call, 3, 5, transposes_b ? 0 : 1);
  if (a.values.rank() != 2 || b.rank() != 2)
    call.fail(ErrorKind::Shape, "inputs " + to_string(a.values.shape()) + " and " + to_string(b.shape()) +
                                    ", expected matrices");
  const Tensor rows = a.centred();
  Tensor sums = (transposes_a ? rows.transpose() : rows).matmul(transposes_b ? b.transpose() : b);
  if (const std::optional<Tensor> c = call.optional_tensor(6)) sums = sums + *c;
  const Tensor factor = product_in_single(product_in_single(alpha, a.scale), spread(call.tensor(4), 1, 2));
  if (!call.has(7)) return {product_in_single(sums.cast(DType::F32), factor)};
  const Scaling y = scaling(call, 7, 8, a.values.dtype());
  return {requantise(sums, quotient(factor, y.scale), y.zero_point)};
}

std::vector<Value> matmul_integer_to_float(Call& call) {
  const Tensor sums = centred_rows(call, 0, 4).matmul(centred_columns(call, 1, 5));
  return {scale_product(sums, call.tensor(2), call.tensor(3), call.optional_tensor(6))};
}

std::vector<Value> dynamic_quantised_matmul(Call& call) {
  const auto [values, scale, zero_point] = quantise_by_range(call.tensor(0));
  const Tensor a = values.cast(DType::I32) - zero_point.cast(DType::I32);
  const Tensor sums = a.matmul(centred_columns(call, 1, 3));
  return {scale_product(sums, scale, call.tensor(2), call.optional_tensor(4))};
}

/// Sums wrap at 32 bits.
std::vector<Value> matmul_of_16_bits(Call& call) {
  const Tensor a = call.tensor(0), b = call.tensor(1);
  for (const Tensor& operand : {a, b})
    if (operand.dtype() != DType::I16 && operand.dtype() != DType::U16)
      call.fail(ErrorKind::DType,
                std::string("an input is ") + to_string(operand.dtype()) + ", expected i16 or u16");
  const bool is_unsigned = a.dtype() == DType::U16 && b.dtype() == DType::U16;
  const DType dtype = is_unsigned ? DType::U32 : DType::I32;
  return {a.cast(dtype).matmul(b.cast(dtype)).cast(dtype)};
}

std::vector<Value> multiply_integers(Call& call) { return {centred(call, 0, 1, 0) * centred(call, 2, 3, 0)}; }

std::vector<Value> sum_integers(Call& call) {
  const Tensor x = call.tensor(0);
  const DType dtype = is_signed(x.dtype()) ? DType::I32 : DType::U32;
  const std::vector<int> axes = normalise_axes(call, call.integers("axes"), x.rank());
  return {x.cast(dtype).sum(axes, call.integer("keepdims") != 0).cast(dtype)};
}

std::vector<Value> quantise_linear_in_single(Call& call) { return quantise_linear(call, Division::InSingle); }

const OpRow kMicrosoftQuantisedProductOps[] = {
    {"QGemm", 1, quantised_gemm, kMicrosoft, 9},
    {"MatMulIntegerToFloat", 1, matmul_integer_to_float, kMicrosoft, 7},
    {"DynamicQuantizeMatMul", 1, dynamic_quantised_matmul, kMicrosoft, 5},
    {"MatMulInteger16", 1, matmul_of_16_bits, kMicrosoft, 2},
    {"MulInteger", 1, multiply_integers, kMicrosoft, 4},
    {"ReduceSumInteger", 1, sum_integers, kMicrosoft, 1},
    {"QuantizeLinear", 1, quantise_linear_in_single, kMicrosoft, 3},
    {"DequantizeLinear", 1, dequantise_linear, kMicrosoft, 3},
};

} // namespace

OpTable microsoft_quantised_product_ops() { return kMicrosoftQuantisedProductOps; }

} // namespace lathe::onnx
