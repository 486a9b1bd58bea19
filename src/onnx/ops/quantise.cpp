// Quantised ops: integers that stand for (value - zero point) * scale.
#include "onnx/ops/quantise.hpp"

#include <algorithm>
#include <cmath>

#include "onnx/ops/attributes.hpp"
#include "onnx/ops/broadcast.hpp"
#include "onnx/ops/spatial.hpp"
#include "onnx/ops/tables.hpp"
#include "onnx/ops/values.hpp"

namespace lathe::onnx {

Tensor spread(const Tensor& parameter, int axis, int rank) {
  if (num_elements(parameter.shape()).is_const(1)) return parameter.reshape({});
  if (parameter.rank() == rank && rank > 1) return parameter; // lies along the axis itself
  return along_axis(parameter, axis, rank);
}

Tensor repeat_blocks(const Tensor& parameter, int axis, int64_t block, Expr size) {
  Shape apart = parameter.shape(), joined = parameter.shape();
  apart.insert(apart.begin() + axis + 1, Expr(block));
  joined[static_cast<size_t>(axis)] = parameter.size(axis) * block;
  const Tensor repeated = parameter.unsqueeze(axis + 1).expand(apart).reshape(joined);
  return slices(repeated, axis, 0, size).tensor();
}

namespace {

/// How scales and zero points lie along x.
struct Spread {
  int axis = 0;
  int64_t block = 0; // so many elements of the axis share one; 0: a number for each, or one for all

  Tensor operator()(const Call& call, const Tensor& parameter, const Tensor& x) const {
    if (block == 0) return spread(parameter, axis, x.rank());
    const Expr blocks = parameter.rank() == x.rank() ? parameter.size(axis) : Expr(0), size = x.size(axis);
    if (parameter.rank() != x.rank() || blocks != ceildiv(size, block))
      call.fail(ErrorKind::Shape, "a parameter of " + to_string(parameter.shape()) + " for " +
                                      to_string(x.shape()) + " in blocks of " + std::to_string(block) +
                                      " along axis " + std::to_string(axis) + ", expected one a block");
    return repeat_blocks(parameter, axis, block, size);
  }
};

/// By the attributes axis and block_size (since opset 21). Where the scale is one for all, they have no
/// bearing, and the axis may not fit x.
Spread read_spread(Call& call, const Tensor& scale, const Tensor& x) {
  const int64_t axis = call.integer("axis", 1), block = call.integer("block_size", 0);
  if (block < 0) call.fail(ErrorKind::Value, "block_size " + std::to_string(block) + ", expected at least 0");
  if (block == 0 && num_elements(scale.shape()).is_const(1)) return {};
  if (block == 0 && scale.rank() > 1)
    call.fail(ErrorKind::Shape, "a scale of " + to_string(scale.shape()) +
                                    " without block_size, expected one number for each place of an axis");
  return {normalise_axis(call, axis, x.rank()), block};
}

Tensor zero_of(DType dtype) { return Tensor::zeros({}, dtype); }

} // namespace

Tensor quotient(const Tensor& x, const Tensor& divisor) {
  if (x.dtype() == DType::F32 && divisor.dtype() == DType::F32) return x / divisor;
  return (x.cast(DType::F64) / divisor.cast(DType::F64)).cast(x.dtype());
}

namespace {

/// x rounded half to even, where that is less than 2^22; larger numbers stay large.
Tensor rounded(const Tensor& x) {
  // Beside this number f32 counts in ones, so that the sum rounds.
  const Tensor beside = weak(0x1.8p23, DType::F32);
  return (x + beside) - beside;
}

Tensor at_least(const Tensor& x, double bound) { return maximum(x, weak(bound, DType::F32)); }
Tensor at_most(const Tensor& x, double bound) { return minimum(x, weak(bound, DType::F32)); }

} // namespace

Tensor rounded_between(const Tensor& x, double low, double high) {
  return rounded(at_least(at_most(x, high), low));
}

Tensor product_in_single(const Tensor& a, const Tensor& b) {
  return (a.cast(DType::F64) * b.cast(DType::F64)).cast(DType::F32);
}

/// The bound lies between the product and what is added to it, so that no fused op takes both.
Tensor saturating_product(const Tensor& a, const Tensor& b) {
  return at_least(a.cast(DType::F32) * b.cast(DType::F32), -0x1p22);
}

Tensor rounded_around(const Tensor& x, const Tensor& zero_point) {
  const auto [least, most] = range_of(zero_point.dtype());
  const Tensor shifted = rounded(x) + zero_point.cast(DType::F32);
  return at_least(at_most(shifted, most), least).cast(zero_point.dtype());
}

Tensor requantise(const Tensor& integers, const Tensor& factor, const Tensor& zero_point) {
  const DType dtype = zero_point.dtype();
  if (is_float(dtype)) // saturates
    return (product_in_single(integers.cast(DType::F32), factor) + zero_point.cast(DType::F32)).cast(dtype);
  return rounded_around(saturating_product(integers, factor), zero_point);
}

Range range_of(DType integers) {
  const double above = std::ldexp(1.0, bits_of(integers) - is_signed(integers));
  return {is_signed(integers) ? -above : 0, above - 1};
}

/// Halves do not hold the zero points of 16 bits.
Tensor quantise(const Tensor& x, const Tensor& scale, const Tensor& zero_point, NarrowCast how) {
  const DType wide = promote(x.dtype(), DType::F32), dtype = zero_point.dtype();
  const auto shifted = [&](const Tensor& numbers) { return numbers.cast(wide) + zero_point.cast(wide); };
  if (is_float(dtype)) return shifted(quotient(x, scale)).cast(dtype, how); // saturates
  if (wide != DType::F32 || scale.dtype() == DType::F64 || bits_of(dtype) > 16)
    return shifted(quotient(x, scale).round()).cast(dtype);
  return rounded_around(quotient(x, scale).cast(wide), zero_point);
}

Tensor centred(Call& call, size_t input, size_t zero_point, int axis) {
  const Tensor x = call.tensor(input).cast(DType::I32);
  const std::optional<Tensor> zero = call.optional_tensor(zero_point);
  return zero ? x - spread(*zero, axis, x.rank()).cast(DType::I32) : x;
}

// ---- from and to floats ----

/// Since opset 23 the scale's dtype says it, or an attribute.
DType dtype_of_division(Call& call, DType input, DType scale) {
  if (call.opset() >= 23 && call.integer("precision", 0) != 0) {
    const DType precision = call.dtype("precision");
    if (!is_float(precision) || is_narrow(precision))
      call.fail(ErrorKind::DType, std::string("precision ") + to_string(precision) + ", expected floats");
    return precision;
  }
  const DType says = call.opset() >= 23 ? scale : input;
  return is_float(says) && !is_narrow(says) ? says : DType::F32;
}

std::vector<Value> quantise_linear(Call& call, Division division) {
  const NarrowCast how{.saturates = call.integer("saturate", 1) != 0}; // of 8-bit floats
  const Tensor input = call.tensor(0), scale = call.tensor(1);
  const std::optional<Tensor> given = call.optional_tensor(2);
  // Without a zero point an attribute says the dtype, since opset 21.
  const bool says = call.has_attribute("output_dtype") && call.integer("output_dtype") != 0;
  const DType dtype = says ? call.dtype("output_dtype") : given ? given->dtype() : DType::U8;
  const bool is_known = is_narrow(dtype) ? dtype != DType::F8E8M0 : is_integer(dtype);
  if (!is_known || (given && given->dtype() != dtype))
    call.fail(ErrorKind::DType, std::string("output_dtype ") + to_string(dtype) +
                                    ", expected integers or narrow floats, and those of the zero point");
  const bool in_single = division == Division::InSingle;
  const Tensor x = input.cast(in_single ? DType::F32 : dtype_of_division(call, input.dtype(), scale.dtype()));
  const Spread spread_over = read_spread(call, scale, x);
  const Tensor zero_point = given ? spread_over(call, *given, x) : zero_of(dtype);
  return {quantise(x, spread_over(call, scale, x), zero_point, how)};
}

std::vector<Value> dequantise_linear(Call& call) {
  const Tensor given = call.tensor(0), scale = call.tensor(1);
  const Spread spread_over = read_spread(call, scale, given);
  const bool says = call.has_attribute("output_dtype") && call.integer("output_dtype") != 0; // since opset 23
  const DType dtype = says ? call.dtype("output_dtype") : scale.dtype();
  if (!is_float(dtype) || is_narrow(dtype))
    call.fail(ErrorKind::DType,
              std::string("a result of ") + to_string(dtype) + ", expected f16, bf16, f32 or f64");
  // Holds differences to a zero point. In f32 a product with blocks sums x q and x apart.
  const bool in_single = is_float(given.dtype()) || (spread_over.block != 0 && bits_of(given.dtype()) <= 16);
  const DType exact = in_single ? DType::F32 : DType::I32;
  Tensor x = given.cast(exact);
  if (const std::optional<Tensor> zero = call.optional_tensor(2))
    x = x - spread_over(call, *zero, x).cast(exact);
  // Integers may be beyond the range of halves.
  const DType wide = scale.dtype() == DType::F64 ? DType::F64 : DType::F32;
  return {(x.cast(wide) * spread_over(call, scale, x).cast(wide)).cast(dtype)};
}

ByRange quantise_by_range(const Tensor& x) {
  const Tensor zero = zero_of(x.dtype());
  // The range takes in 0, so that 0 is exact.
  const Tensor low = minimum(x.min(), zero), high = maximum(x.max(), zero);
  // Of zeros any scale will do.
  const Tensor range = quotient(high - low, weak(255.0, x.dtype()));
  const Tensor scale = where(range == 0.0, weak(1.0, x.dtype()), range);
  const Tensor zero_point = quotient(-low, scale).round().cast(DType::U8);
  return {quantise(x, scale, zero_point), scale, zero_point};
}

// ---- products ----

Tensor centred_rows(Call& call, size_t input, size_t zero_point) {
  return centred(call, input, zero_point, std::max(call.tensor(input).rank() - 2, 0));
}
Tensor centred_columns(Call& call, size_t input, size_t zero_point) {
  return centred(call, input, zero_point, call.tensor(input).rank() - 1);
}

namespace {

std::vector<Value> dynamic_quantise_linear(Call& call) {
  const auto [values, scale, zero_point] = quantise_by_range(call.tensor(0));
  return {values, scale, zero_point};
}

std::vector<Value> matmul_integer(Call& call) {
  return {centred_rows(call, 0, 2).matmul(centred_columns(call, 1, 3)).cast(DType::I32)};
}

std::vector<Value> quantised_matmul(Call& call) {
  const Tensor sums = centred_rows(call, 0, 2).matmul(centred_columns(call, 3, 5));
  const Tensor row_scale = spread(call.tensor(1), std::max(sums.rank() - 2, 0), sums.rank());
  const Tensor column_scale = spread(call.tensor(4), sums.rank() - 1, sums.rank());
  const Tensor scale = call.tensor(6), zero_point = call.tensor(7);
  return {requantise(sums, quotient(row_scale * column_scale, scale.reshape({})), zero_point.reshape({}))};
}

std::vector<Value> conv_integer(Call& call) {
  return {convolve(call, centred(call, 0, 2, 1), centred(call, 1, 3, 0)).cast(DType::I32)};
}

std::vector<Value> quantised_conv(Call& call) {
  const Tensor sums = convolve(call, centred(call, 0, 2, 1), centred(call, 3, 5, 0), call.optional_tensor(8));
  const Tensor x_scale = call.tensor(1).reshape({});
  const Tensor weight_scale = spread(call.tensor(4), 1, sums.rank());
  const Tensor scale = call.tensor(6).reshape({}), zero_point = call.tensor(7).reshape({});
  return {requantise(sums, quotient(x_scale * weight_scale, scale), zero_point)};
}

const OpRow kQuantiseOps[] = {
    {"QuantizeLinear", 10, [](Call& call) { return quantise_linear(call, Division::AsGiven); }},
    {"DequantizeLinear", 10, dequantise_linear},
    {"DynamicQuantizeLinear", 11, dynamic_quantise_linear},
    {"MatMulInteger", 10, matmul_integer},
    {"QLinearMatMul", 10, quantised_matmul},
    {"ConvInteger", 10, conv_integer},
    {"QLinearConv", 10, quantised_conv},
};

} // namespace

OpTable quantise_ops() { return kQuantiseOps; }

} // namespace lathe::onnx
