// Cumulative sums. No element waits for the one before it, and every step works on vectors.
//
// The axis is cut into blocks of 16. Inside a block, y[j] = x[j] + x[j-1] sums the last two elements, and
// y[j] + y[j-2] the last four. Two more such steps sum all up to j. On a vector these are four shuffles.
//
// The sum of all elements before a block is the sum of a window over the blocks' totals. The window ends just
// before the block; zeros pad the totals in front. So written, the windows take work for each pair of blocks.
// If a schedule goes through the blocks in order, the move carry makes the windows one running sum. Longer
// axes are first cut into parts, whose totals are summed in the same way.
#include "graph/accumulator.hpp"
#include "graph/tensor_impl.hpp"

namespace lathe {
using namespace graph;
namespace {

constexpr int64_t kBlock = 16;
constexpr int64_t kWindow = 256;            // totals; the most that one window sums
constexpr int64_t kPart = kBlock * kWindow; // elements; the most whose blocks fit one window

/// x[j - by] along the axis, 0 where j < by.
Tensor back(const Tensor& x, int axis, int64_t by) {
  const std::vector<Expr> none(x.shape().size(), Expr(0));
  std::vector<Expr> before = none;
  before[axis] = by;
  return shrink_to(pad_zero(x, before, none), none, x.shape());
}

/// The sum up to each element along the axis, which has at most kBlock elements.
Tensor scan_block(const Tensor& x, int axis) {
  Tensor sums = x;
  for (int64_t step = 1; step < std::min(kBlock, x.shape()[axis].hi()); step *= 2)
    sums = sums + back(sums, axis, step);
  return sums;
}

/// The last element along the axis. The result lacks the axis.
Tensor last_of(const Tensor& x, int axis) {
  std::vector<Expr> begin(x.shape().size(), Expr(0)), end = x.shape();
  begin[axis] = end[axis] - 1;
  return drop_axes(shrink_to(x, begin, end), {axis});
}

/// The axis cut into two: the pieces, and the `piece` elements of each. Zeros fill up the last piece.
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

/// For each element, the sum of all elements before it along the axis.
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
  // The sums inside blocks are stored, because the sums before each block and the result both read them.
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
