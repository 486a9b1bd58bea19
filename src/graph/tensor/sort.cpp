// Sorting. Short rows, and rows whose size is a symbol, are sorted by rank: an element's place is the number
// of elements that go before it. So every place is known at once, and a scatter puts the values there. It
// takes n^2 comparisons along the axis, in an order that does not depend on the data, and is stable.
// radix_sort.hpp has the way of long rows.
#include "graph/radix_sort.hpp"

#include <limits>

namespace lathe {
using namespace graph;

Tensor graph::sorts_before(const Tensor& a, const Tensor& b) {
  if (!is_float(a.dtype())) return a < b;
  return (a < b) | (b.isnan() & a.isnan().logical_not());
}

namespace {

// Each element's place in the sorted row, as i32 where that holds the row's size. Rows lie along the last
// axis of x.
Tensor rank_last(const Tensor& x, bool descending) {
  const Tensor keys = sort_keys(x, descending);
  const Tensor own = keys.unsqueeze(-1), other = keys.unsqueeze(-2);
  const Shape pairs = broadcast_shape("sort", {own.shape(), other.shape()});
  check_shape("sort", pairs, DType::I64);
  const Tensor i = broadcast_to(own, pairs), j = broadcast_to(other, pairs);
  const int last = static_cast<int>(pairs.size()) - 1;
  const DType place = pairs.back().hi() <= std::numeric_limits<int32_t>::max() ? DType::I32 : DType::I64;
  const Tensor earlier = index_along(last, pairs, place) < index_along(last - 1, pairs, place);
  const Tensor counts = (j < i) | ((j == i) & earlier);
  return drop_axes(reduce_op(Op::Add, counts.cast(place), {last}), {last});
}

/// The positions of each row's elements in sorted order. Rows lie along the last axis.
Tensor order_of_rows(const Tensor& x, bool descending) {
  if (sorts_by_digits(x.shape().back())) return order_by_digits(x, descending);
  const Tensor rank = rank_last(x, descending);
  return Tensor::zeros(x.shape(), DType::I64).scatter(-1, rank, index_along(x.rank() - 1, x.shape()));
}

/// The same of the first k.
Tensor first_of_rows(const Tensor& x, int64_t k, bool descending) {
  const int row = x.rank() - 1;
  if (chooses_by_digits(x.shape().back()) && !sorts_by_digits(k)) {
    const Tensor chosen = choose_by_digits(x, k, descending).contiguous();
    return chosen.gather(-1, order_of_rows(x.gather(-1, chosen).contiguous(), descending));
  }
  return part_of(order_of_rows(x, descending), row, 0, k);
}

int sorted_axis(std::string_view op, const Tensor& x, int axis) {
  if (x.rank() == 0) fail(ErrorKind::Shape, "{}: of a scalar, expected at least one axis", op);
  return resolve_axis(op, axis, x.rank());
}

} // namespace

Tensor Tensor::sort(Axis axis, Flag descending) const {
  const int which = sorted_axis("sort", *this, axis);
  const Tensor rows = transpose(which, -1);
  if (sorts_by_digits(rows.shape().back()))
    return rows.gather(-1, order_by_digits(rows, descending)).transpose(which, -1);
  return zeros(rows.shape(), dtype()).scatter(-1, rank_last(rows, descending), rows).transpose(which, -1);
}

Tensor Tensor::argsort(Axis axis, Flag descending) const {
  const int which = sorted_axis("argsort", *this, axis);
  return order_of_rows(transpose(which, -1), descending).cast(DType::I64).transpose(which, -1);
}

std::pair<Tensor, Tensor> Tensor::topk(Whole k, Axis axis, Flag largest) const {
  const int which = sorted_axis("topk", *this, axis);
  const Expr size = shape()[which];
  if (k < 0 || k > size.lo())
    fail(ErrorKind::Value, "topk: {} of axis {} of {}, expected 0 to {}", k, which, to_string(shape()),
         size.lo());
  const Tensor rows = transpose(which, -1), first = first_of_rows(rows, k, largest);
  return {rows.gather(-1, first).transpose(which, -1), first.cast(DType::I64).transpose(which, -1)};
}

} // namespace lathe
