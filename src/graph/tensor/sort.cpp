// Sorting. Short rows, and rows whose size is a symbol, are sorted by rank: an element's place is the number
// of elements that go before it. So every place is known at once, and a scatter puts the values there. It
// takes n^2 comparisons along the axis, in an order that does not depend on the data, and is stable.
// radix_sort.cpp has the way of long rows.
#include "graph/sorting.hpp"

#include <functional>
#include <limits>

namespace lathe {
using namespace graph;

Tensor graph::sorts_before(const Tensor& a, const Tensor& b) {
  if (!is_float(a.dtype())) return a < b;
  return (a < b) | (b.isnan() & a.isnan().logical_not());
}

namespace {

constexpr int64_t kRankedBlock = 32; // positions that compare with another block's in one way

/// How many positions j of each row go before each i: `before` of own[..., i, 1] and other[..., 1, j].
Tensor count_before(const Tensor& own, const Tensor& other, DType place,
                    const std::function<Tensor(const Tensor& i, const Tensor& j)>& before) {
  const Shape pairs = broadcast_shape("sort", {own.shape(), other.shape()});
  check_shape("sort", pairs, DType::I64);
  const int last = static_cast<int>(pairs.size()) - 1;
  const Tensor counts = before(broadcast_to(own, pairs), broadcast_to(other, pairs));
  return drop_axes(reduce_op(Op::Add, counts.cast(place), {last}), {last});
}

/// Of pairs [..., i, j]: whether j < i.
Tensor is_earlier(const Tensor& pairs, DType index) {
  const int last = pairs.rank() - 1;
  return index_along(last, pairs.shape(), index) < index_along(last - 1, pairs.shape(), index);
}

/// The places of the elements of rows of a known size. Of two equal elements that of the earlier block goes
/// first. So a key k counts what is at most k in earlier blocks, and what is below k in its own and later
/// ones. As "at most k" is "below k + 1", one comparison does for a pair. Within a block, a second sum counts
/// equal elements. The dtype must hold one more than each key but NaN's.
Tensor rank_by_blocks(Tensor keys, int64_t size) {
  // No key is larger. NaN gets this one, whose successor the dtype holds, and so does the filling of the last
  // block.
  const int64_t last = keys.dtype() == DType::I32 ? 0x7ffffffe : 0x7ffffffffffffffe;
  const Tensor largest = Tensor::full({}, Scalar::of_int(keys.dtype(), last));
  keys = in_blocks(minimum(keys, largest), kRankedBlock, largest);

  const int rank = keys.rank();
  const Tensor own = keys.unsqueeze(-1).unsqueeze(-1),
               other = keys.unsqueeze(-3).unsqueeze(-3); // [b, i, c, j]
  const Shape pairs = broadcast_shape("sort", {own.shape(), other.shape()});
  const auto block = [&](int axis) { return index_along(axis, pairs, DType::I32); };
  const Tensor bound = broadcast_to(own, pairs) + (block(rank) < block(rank - 2)).cast(keys.dtype());
  const Tensor below = (broadcast_to(other, pairs) < bound).cast(DType::I32);
  const Tensor of_all = drop_axes(reduce_op(Op::Add, below, {rank, rank + 1}), {rank, rank + 1});
  const Tensor of_equal =
      count_before(keys.unsqueeze(-1), keys.unsqueeze(-2), DType::I32,
                   [](const Tensor& i, const Tensor& j) { return (j == i) & is_earlier(i, DType::I32); });
  Shape in_rows = keys.shape();
  in_rows.pop_back();
  in_rows.back() = in_rows.back() * Expr(kRankedBlock);
  return part_of((of_all + of_equal).reshape(in_rows), rank - 2, 0, size);
}

/// Each element's place in the sorted row, as i32 where that holds the row's size. Rows lie along the last
/// axis.
Tensor rank_last(const Tensor& x, bool descending) {
  const Expr size = x.shape().back();
  const Tensor keys = sort_keys(x, descending);
  const int bytes = size_of(x.dtype());
  const bool can_grow = is_float(x.dtype()) || bytes < 8; // whether some dtype holds one more than each key
  if (size.is_const() && size.value() > 2 * kRankedBlock && can_grow) {
    const DType grown = bytes < 4 ? DType::I32 : is_float(x.dtype()) ? keys.dtype() : DType::I64;
    return rank_by_blocks(keys.cast(grown), size.value());
  }
  const DType place = size.hi() <= std::numeric_limits<int32_t>::max() ? DType::I32 : DType::I64;
  return count_before(keys.unsqueeze(-1), keys.unsqueeze(-2), place, [&](const Tensor& i, const Tensor& j) {
    return (j < i) | ((j == i) & is_earlier(i, place));
  });
}

} // namespace

Tensor graph::in_blocks(const Tensor& rows, int64_t block, const Tensor& fill) {
  const int64_t size = rows.shape().back().value(), blocks = (size + block - 1) / block;
  Shape shape = rows.shape();
  shape.back() = blocks * block - size;
  const Tensor filled = concat({rows, broadcast_to(fill, shape)}, -1);
  shape.back() = blocks;
  shape.push_back(Expr(block));
  return filled.contiguous().reshape(shape);
}

Tensor graph::order_of_rows(const Tensor& x, bool descending) {
  if (sorts_by_digits(x.shape().back())) return order_by_digits(x, descending);
  const Tensor rank = rank_last(x, descending);
  return Tensor::zeros(x.shape(), DType::I64).scatter(-1, rank, index_along(x.rank() - 1, x.shape()));
}

int graph::sorted_axis(std::string_view op, const Tensor& x, int axis) {
  if (x.rank() == 0) fail(ErrorKind::Shape, "{}: of a scalar, expected at least one axis", op);
  return resolve_axis(op, axis, x.rank());
}

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

} // namespace lathe
