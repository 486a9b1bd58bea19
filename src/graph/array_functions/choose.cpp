// Grids of indices, and choices by indices and masks.
#include "graph/tensor_impl.hpp"
#include "lathe/array_functions.hpp"

namespace lathe {
using namespace graph;

std::vector<Tensor> meshgrid(const std::vector<Tensor>& vectors, Flag xy) {
  if (vectors.empty()) fail(ErrorKind::Value, "meshgrid: no vectors, expected at least one");
  std::vector<size_t> axes; // of the grid, that each vector runs along
  for (size_t k = 0; k < vectors.size(); ++k) {
    if (vectors[k].rank() != 1)
      fail(ErrorKind::Shape, "meshgrid: shape {}, expected vectors", to_string(vectors[k].shape()));
    axes.push_back(k);
  }
  if (xy && axes.size() > 1) std::swap(axes[0], axes[1]);
  Shape shape(axes.size());
  for (size_t k = 0; k < axes.size(); ++k) shape[axes[k]] = vectors[k].shape()[0];
  std::vector<Tensor> grids;
  for (size_t k = 0; k < axes.size(); ++k) {
    check_shape("meshgrid", shape, vectors[k].dtype());
    Shape along(shape.size(), Expr(1));
    along[axes[k]] = shape[axes[k]];
    grids.push_back(broadcast_to(view_op(vectors[k], View::contiguous(along)), shape));
  }
  return grids;
}

Tensor one_hot(const Tensor& index, Whole classes, DType dtype) {
  check_index("one_hot", index);
  if (classes < 1) fail(ErrorKind::Value, "one_hot: {} classes, expected at least 1", int64_t{classes});
  Shape shape = index.shape();
  shape.push_back(int64_t{classes});
  check_shape("one_hot", shape, DType::I64);
  // An i64 holds every class; a larger u64 becomes negative, which is no class either.
  const Tensor each = index.cast(DType::I64).unsqueeze(-1);
  return (each == index_along(0, {shape.back()})).cast(dtype);
}

Tensor masked_fill(const Tensor& x, const Tensor& mask, Number value) {
  const Tensor fill = weak(value, x.dtype(), "masked_fill");
  if (promote(fill.dtype(), x.dtype()) != x.dtype())
    fail(ErrorKind::DType, "masked_fill: {} in {}, expected a number of that kind", text(fill), text(x));
  check_shape("masked_fill", broadcast_shape("masked_fill", {x.shape(), mask.shape()}), x.dtype());
  return where(mask, fill, x);
}

} // namespace lathe
