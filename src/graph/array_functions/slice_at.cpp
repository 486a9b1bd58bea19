// Parts of tensors that begin where a number says at run time.
#include "graph/narrow.hpp"
#include "graph/places.hpp"
#include "lathe/state.hpp"

namespace lathe {
using namespace graph;
namespace {

/// The flat place in `shape` of each element of a part of `sizes`; -1 for those that lie outside.
Tensor places(std::string_view op, const Shape& shape, const std::vector<Start>& start, const Shape& sizes) {
  if (sizes.size() != shape.size())
    fail(ErrorKind::Shape, "{}: a part of shape {} of {}, expected as many axes", op, to_string(sizes),
         to_string(shape));
  if (start.size() > shape.size())
    fail(ErrorKind::Shape, "{}: {} starts for shape {}, expected at most {}", op, start.size(),
         to_string(shape), shape.size());
  check_shape(op, sizes, DType::I64);
  const std::vector<Expr> strides = row_major_strides(shape);
  Tensor place = size_scalar(Expr(0)), inside = Tensor::full({}, true);
  for (size_t d = 0; d < shape.size(); ++d) {
    Tensor at = size_scalar(Expr(0));
    const Tensor size = size_scalar(shape[d]);
    if (d < start.size()) {
      const Tensor& given = start[d].position();
      check_index(op, given);
      if (!num_elements(given.shape()).is_const(1))
        fail(ErrorKind::Shape, "{}: start {} of shape {}, expected one element", op, d,
             to_string(given.shape()));
      at = from_the_start(view_op(given, View::contiguous({})), shape[d]);
    }
    if (!sizes[d].is_const(1)) at = at + index_along(static_cast<int>(d), sizes);
    if (d < start.size() || !proves_le(sizes[d], shape[d]))
      inside = inside & (number(0, DType::I64) <= at) & (at < size);
    place = place + at * size_scalar(strides[d]);
  }
  return broadcast_to(where(inside, place, number(-1, DType::I64)), sizes);
}

} // namespace

Tensor slice_at(const Tensor& x, const std::vector<Start>& start, const Shape& sizes) {
  const Tensor from = places("slice_at", x.shape(), start, sizes);
  return on_codes(x, [&](const Tensor& e) { return wrap(gather(node_of(flat(e)), node_of(from))); });
}

Tensor update_slice_at(const Tensor& x, const std::vector<Start>& start, const Tensor& part) {
  const Tensor to = places("update_slice_at", x.shape(), start, part.shape());
  if (part.dtype() != x.dtype())
    fail(ErrorKind::DType, "update_slice_at: a part of dtype {} in {}, expected the same",
         to_string(part.dtype()), to_string(x.dtype()));
  if (is_narrow(x.dtype())) return of_codes(x.dtype(), update_slice_at(codes_of(x), start, codes_of(part)));
  const NodeRef made = scatter(node_of(flat(x)), node_of(to), node_of(part), std::nullopt);
  return view_op(wrap(made), View::contiguous(x.shape()));
}

} // namespace lathe
