// Sorting by rank: an element's place is the number of elements that go before it. So every place is known at
// once, and a scatter puts the values there. It takes n^2 comparisons along the axis, in an order that does
// not depend on the data, and is stable.
#include "graph/tensor_impl.hpp"

namespace lathe {
using namespace graph;

Tensor graph::sorts_before(const Tensor& a, const Tensor& b) {
  if (!is_float(a.dtype())) return a < b;
  return (a < b) | (b.isnan() & a.isnan().logical_not());
}

namespace {

// Whether a goes before b.
Tensor before(const Tensor& a, const Tensor& b, bool descending) {
  return descending ? sorts_before(b, a) : sorts_before(a, b);
}

// Each element's place in the sorted row, as i64. Rows lie along the last axis of x.
Tensor rank_last(const Tensor& x, bool descending) {
  const Tensor own = x.unsqueeze(-1), other = x.unsqueeze(-2);
  const Shape pairs = broadcast_shape("sort", {own.shape(), other.shape()});
  check_shape("sort", pairs, DType::I64);
  const Tensor i = broadcast_to(own, pairs), j = broadcast_to(other, pairs);
  const int last = static_cast<int>(pairs.size()) - 1;
  const Tensor earlier = index_along(last, pairs) < index_along(last - 1, pairs);
  const Tensor counts = before(j, i, descending) | (before(i, j, descending).logical_not() & earlier);
  return drop_axes(reduce_op(Op::Add, counts.cast(DType::I64), {last}), {last});
}

struct Sorted {
  Tensor rank; // with the axis last
  int axis;
};

Sorted rank_along(std::string_view op, const Tensor& x, int axis, bool descending) {
  if (x.rank() == 0) fail(ErrorKind::Shape, "{}: of a scalar, expected at least one axis", op);
  const int which = resolve_axis(op, axis, x.rank());
  return {rank_last(x.transpose(which, -1), descending), which};
}

// Puts values, whose sorted axis is the last, at their places, and moves the axis back.
Tensor put(const Tensor& values, const Sorted& order) {
  const Tensor zero = Tensor::zeros(values.shape(), values.dtype());
  return zero.scatter(-1, order.rank, values).transpose(order.axis, -1);
}

} // namespace

Tensor Tensor::sort(Axis axis, Flag descending) const {
  const Sorted order = rank_along("sort", *this, axis, descending);
  return put(transpose(order.axis, -1), order);
}

Tensor Tensor::argsort(Axis axis, Flag descending) const {
  const Sorted order = rank_along("argsort", *this, axis, descending);
  return put(index_along(rank() - 1, order.rank.shape()), order);
}

std::pair<Tensor, Tensor> Tensor::topk(Whole k, Axis axis, Flag largest) const {
  const Sorted order = rank_along("topk", *this, axis, largest);
  const Expr size = shape()[order.axis];
  if (k < 0 || k > size.lo())
    fail(ErrorKind::Value, "topk: {} of axis {} of {}, expected 0 to {}", k, order.axis, to_string(shape()),
         size.lo());
  std::vector<Expr> begin(shape().size(), Expr(0)), end = shape();
  end[order.axis] = static_cast<int64_t>(k);
  const Tensor values = put(transpose(order.axis, -1), order);
  const Tensor indices = put(index_along(rank() - 1, order.rank.shape()), order);
  return {shrink_to(values, begin, end), shrink_to(indices, begin, end)};
}

} // namespace lathe
