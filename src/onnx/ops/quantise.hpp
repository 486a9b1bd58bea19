// What quantised ops of several domains share: integers that stand for (value - zero point) * scale.
#pragma once
#include <vector>

#include "lathe/onnx/op.hpp"

namespace lathe::onnx {

/// A scale or zero point: one for all, or one for each place along the axis.
Tensor spread(const Tensor& parameter, int axis, int rank);
/// Every number along the axis `block` times, up to `size` in all: the last block may be shorter.
Tensor repeat_blocks(const Tensor& parameter, int axis, int64_t block, Expr size);
/// x / divisor rounded once, in x's dtype.
Tensor quotient(const Tensor& x, const Tensor& divisor);
/// x rounded half to even and at least `low`, at most `high`, whole numbers below 2^22; x is f32. NaN stays.
Tensor rounded_between(const Tensor& x, double low, double high);
/// x, f32, rounded half to even, plus the zero point, in the zero point's dtype, of up to 16 bits: saturates.
Tensor rounded_around(const Tensor& x, const Tensor& zero_point);
/// The least and the largest number of a dtype of integers.
struct Range {
  double least, most;
};
Range range_of(DType integers);
/// a * b rounded once to f32; a and b: f32, or integers of up to 24 bits.
Tensor product_in_single(const Tensor& a, const Tensor& b);
/// The same, but at least -2^22: for results of up to 16 bits, which saturate there. It takes half the time.
Tensor saturating_product(const Tensor& a, const Tensor& b);
/// Integers times a factor, in numbers of the zero point's dtype: rounds half to even, then adds the zero
/// point and saturates. Of products, the factor is a_scale * b_scale / scale, each rounded to f32, as ONNX
/// Runtime and ONNX's reference have it: whether a quotient is a half depends on the order.
Tensor requantise(const Tensor& integers, const Tensor& factor, const Tensor& zero_point);
/// Numbers of the zero point's dtype: half to even, saturating unless `how` says that a narrow float does
/// not.
Tensor quantise(const Tensor& x, const Tensor& scale, const Tensor& zero_point, NarrowCast how = {});

/// Input `input` as a difference to its zero point, input `zero_point`, in I32.
Tensor centred(Call& call, size_t input, size_t zero_point, int axis);
/// The same of the operands of a product: of [..., M, K] zero points may lie along M, of [..., K, N] along N.
Tensor centred_rows(Call& call, size_t input, size_t zero_point);
Tensor centred_columns(Call& call, size_t input, size_t zero_point);

struct ByRange {
  Tensor values, scale, zero_point; // U8, x's dtype, U8
};
/// By the range of all of x.
ByRange quantise_by_range(const Tensor& x);

/// In what x is divided by its scale.
enum class Division { AsGiven, InSingle };
std::vector<Value> quantise_linear(Call& call, Division division);
std::vector<Value> dequantise_linear(Call& call);

} // namespace lathe::onnx
