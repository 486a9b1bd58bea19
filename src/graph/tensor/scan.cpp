// Cumulative sums, in which no element waits for the one before it and every step is a vector's.
//
// The axis is cut into blocks of 16. Inside each, y[j] = x[j] + x[j-1] sums the last two, y[j] + y[j-2] the
// last four, and two more such steps all up to j: of a vector, four shuffles. What lies before a block is the
// sum of a window over the blocks' totals that ends just before it, padded with zeros in front. As it stands
// that is work for each pair of blocks; where a schedule goes through the blocks in order, the move carry
// makes it one running sum. Longer axes are cut into parts first, whose totals are sums of their own.
#include "graph/accumulator.hpp"
#include "graph/tensor_impl.hpp"

namespace lathe {
using namespace graph;
namespace {

constexpr int64_t kBlock = 16;
constexpr int64_t kWindow = 256;            // totals that one window sums at most
constexpr int64_t kPart = kBlock * kWindow; // elements whose blocks are one window's

/// x[j - by] along the axis, 0 where there is none.
Tensor back(const Tensor& x, int axis, int64_t by) {
  const std::vector<Expr> none(x.shape().size(), Expr(0));
  std::vector<Expr> before = none;
  before[axis] = by;
  return shrink_to(pad_zero(x, before, none), none, x.shape());
}

/// Of at most kBlock elements along the axis: the sums up to each.
Tensor scan_block(const Tensor& x, int axis) {
  Tensor sums = x;
  for (int64_t step = 1; step < std::min(kBlock, x.shape()[axis].hi()); step *= 2)
    sums = sums + back(sums, axis, step);
  return sums;
}

/// The last element along the axis, without it.
Tensor last_of(const Tensor& x, int axis) {
  std::vector<Expr> begin(x.shape().size(), Expr(0)), end = x.shape();
  begin[axis] = end[axis] - 1;
  return drop_axes(shrink_to(x, begin, end), {axis});
}

/// The axis as two: pieces of so many elements, zeros behind the last.
Tensor cut(const Tensor& x, int axis, int64_t piece) {
  const std::vector<Expr> none(x.shape().size(), Expr(0));
  const Expr size = x.shape()[axis], count = ceildiv(size, piece);
  std::vector<Expr> missing = none;
  missing[axis] = count * piece - size;
  Shape shape = x.shape();
  shape[axis] = count;
  shape.insert(shape.begin() + axis + 1, Expr(piece));
  return (missing[axis] == Expr(0) ? x : pad_zero(x, none, missing)).reshape(shape);
}

/// Undoes cut().
Tensor joined(const Tensor& pieces, int axis, Expr size) {
  Shape shape = pieces.shape();
  shape[axis] = shape[axis] * shape[axis + 1];
  shape.erase(shape.begin() + axis + 1);
  const Tensor whole = pieces.reshape(shape);
  if (shape[axis] == size) return whole;
  shape[axis] = size;
  return shrink_to(whole, std::vector<Expr>(shape.size(), Expr(0)), shape);
}

/// The sums of all elements before each along the axis.
Tensor sums_before(const Tensor& x, int axis) {
  const Expr size = x.shape()[axis];
  if (size.hi() > kWindow) {
    const Tensor parts = cut(x.contiguous(), axis, kWindow);
    const Tensor earlier = sums_before(parts.sum(axis + 1), axis);
    return joined(sums_before(parts, axis + 1) + earlier.unsqueeze(axis + 1), axis, size);
  }
  const std::vector<Expr> none(x.shape().size(), Expr(0));
  std::vector<Expr> front = none;
  front[axis] = size.hi();
  Shape end = x.shape();
  end[axis] = size + (size.hi() - 1); // so that there is a window for each element
  return shrink_to(pad_zero(x, front, none), none, end).window(axis, size.hi()).sum(-1);
}

Tensor scan(const Tensor& x, int axis) {
  const Expr size = x.shape()[axis];
  if (size.hi() <= kBlock) return scan_block(x, axis);
  const bool is_long = size.hi() > kPart;
  const Tensor pieces = cut(x, axis, is_long ? kPart : kBlock);
  // Stored: both the sums before each block and the result read it.
  const Tensor inside = is_long ? scan(pieces, axis + 1) : scan_block(pieces, axis + 1).contiguous();
  const Tensor totals = is_long ? pieces.sum(axis + 1) : last_of(inside, axis + 1);
  return joined(inside + sums_before(totals, axis).unsqueeze(axis + 1), axis, size);
}

} // namespace

Tensor Tensor::cumsum(Axis axis) const {
  const int which = resolve_axis("cumsum", axis, rank());
  const DType d = accumulator(dtype());
  return scan(cast(wide(d)), which).cast(d);
}

} // namespace lathe
