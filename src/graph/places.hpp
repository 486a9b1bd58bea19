// Places of elements that tensors of indices name.
#pragma once
#include "graph/tensor_impl.hpp"

namespace lathe::graph {

/// Indices along an axis of `size`, in which negative ones count from its end.
inline Tensor from_the_start(const Tensor& index, Expr size) {
  const Tensor i = index.cast(DType::I64);
  return is_unsigned(index.dtype()) ? i : where(i < Tensor::full({}, int64_t{0}), i + size_scalar(size), i);
}

/// The elements along one axis, row-major.
inline Tensor flat(const Tensor& t) { return view_op(t, View::contiguous({num_elements(t.shape())})); }

} // namespace lathe::graph
