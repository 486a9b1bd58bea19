#include "onnx/ops/microsoft/requantise.hpp"

#include <algorithm>

namespace lathe::onnx {

Tensor Quantity::centred() const { return values.cast(DType::I32) - zero_point.cast(DType::I32); }

Tensor Quantity::real() const { return product_in_single(centred(), scale); }

Quantity quantity(const Call& call, size_t input) {
  const Tensor values = call.tensor(input);
  if (values.dtype() != DType::U8 && values.dtype() != DType::I8)
    call.fail(ErrorKind::DType,
              "input " + std::to_string(input) + " is " + to_string(values.dtype()) + ", expected u8 or i8");
  const Scaling by = scaling(call, input + 1, input + 2, values.dtype());
  return {values, by.scale, by.zero_point};
}

Scaling scaling(const Call& call, size_t scale, size_t zero_point, DType dtype) {
  const std::optional<Tensor> zero = call.optional_tensor(zero_point);
  return {call.tensor(scale).reshape({}), zero ? zero->reshape({}) : Tensor::zeros({}, dtype)};
}

Tensor fused_in_single(const Tensor& a, const Tensor& b, const Tensor& c) {
  return (a.cast(DType::F64) * b.cast(DType::F64) + c.cast(DType::F64)).cast(DType::F32);
}

Tensor scale_product(const Tensor& sums, const Tensor& row_scale, const Tensor& column_scale,
                     const std::optional<Tensor>& bias) {
  const DType dtype = column_scale.dtype();
  const int rank = sums.rank();
  const Tensor scale = spread(row_scale, std::max(rank - 2, 0), rank).cast(DType::F32) *
                       spread(column_scale, rank - 1, rank).cast(DType::F32);
  const Tensor product = sums.cast(DType::F32) * scale;
  return (bias ? product + bias->cast(DType::F32) : product).cast(dtype);
}

Tensor round_to(const Tensor& x, DType dtype) {
  const auto [least, most] = range_of(dtype);
  return rounded_between(x, least, most).cast(dtype);
}

} // namespace lathe::onnx
