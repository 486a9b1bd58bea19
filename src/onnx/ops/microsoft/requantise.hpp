// Numbers of 8 bits with one scale and zero point each, computed with ONNX Runtime's roundings on x86-64.
//
// A kernel may fuse a product and a sum into one rounding. Where ONNX Runtime rounds a product to f32 before
// it adds, the product is made in f64, where it is exact, and rounded by a cast.
#pragma once
#include "onnx/ops/quantise.hpp"

namespace lathe::onnx {

/// Input `input`, whose scale and zero point are the next two inputs; without a zero point it is 0.
struct Quantity {
  Tensor values, scale, zero_point; // scale and zero point: of no axes

  /// values - zero point, in I32.
  Tensor centred() const;
  /// In f32, rounded once.
  Tensor real() const;
};
/// Error(DType) unless input `input` is U8 or I8, Error(Shape) unless its scale and zero point have one
/// element.
Quantity quantity(const Call& call, size_t input);

/// A node's output: how it is scaled.
struct Scaling {
  Tensor scale, zero_point; // of no axes
};
/// Inputs `scale` and `zero_point`, which may be left out: it is 0 then, of `dtype`.
Scaling scaling(const Call& call, size_t scale, size_t zero_point, DType dtype);

/// a * b + c, rounded once to f32; a, b and c: f32, or integers of up to 24 bits.
Tensor fused_in_single(const Tensor& a, const Tensor& b, const Tensor& c);

/// sums * row_scale * column_scale + bias in the dtype of column_scale; scales and bias may lie along rows
/// and columns.
Tensor scale_product(const Tensor& sums, const Tensor& row_scale, const Tensor& column_scale,
                     const std::optional<Tensor>& bias);

/// x, f32 that includes the zero point, as integers of `dtype`.
Tensor round_to(const Tensor& x, DType dtype);

} // namespace lathe::onnx
