// Cumulative sums, so that no element waits for the one before it and every step is a vector's.
//
// The axis is cut into blocks of 16. Inside each, y[j] = x[j] + x[j-1] + x[j-2] + x[j-3] sums the last four
// and y[j] + y[j-4] + y[j-8] + y[j-12] all up to j: two passes of four loads. What lies before a block is the
// same question about the blocks' totals, of which there are 16 times fewer. None of it fixes an order of
// loops: the search fuses and divides it as any other.
#include "graph/accumulator.hpp"
#include "graph/tensor_impl.hpp"

namespace lathe {
using namespace graph;
namespace {

constexpr int64_t kRadix = 4, kBlock = kRadix * kRadix;

/// x[j - by] along the axis, 0 where there is none.
Tensor back(const Tensor& x, int axis, int64_t by) {
  if (by == 0) return x;
  const std::vector<Expr> none(x.shape().size(), Expr(0));
  std::vector<Expr> before = none;
  before[axis] = by;
  return shrink_to(pad_zero(x, before, none), none, x.shape());
}

/// x[j - from] + x[j - from - step] + ..., four of them.
Tensor sum_of_four(const Tensor& x, int axis, int64_t from, int64_t step) {
  Tensor sum = back(x, axis, from);
  for (int64_t i = 1; i < kRadix && from + i * step < x.shape()[axis].hi(); ++i)
    sum = sum + back(x, axis, from + i * step);
  return sum;
}

/// Of at most kBlock elements along the axis: the sums up to each, or of those before it.
Tensor scan_block(const Tensor& x, int axis, bool before) {
  const Tensor last_four = sum_of_four(x, axis, before ? 1 : 0, 1);
  return x.shape()[axis].hi() <= kRadix ? last_four : sum_of_four(last_four, axis, 0, kRadix);
}

/// The last of the blocks' elements, without their axis.
Tensor last_of(const Tensor& blocks, int axis) {
  std::vector<Expr> begin(blocks.shape().size(), Expr(0)), end = blocks.shape();
  begin[axis] = kBlock - 1;
  return drop_axes(shrink_to(blocks, begin, end), {axis});
}

Tensor scan(const Tensor& x, int axis, bool before) {
  const Expr size = x.shape()[axis];
  if (size.hi() <= kBlock) return scan_block(x, axis, before);
  const std::vector<Expr> none(x.shape().size(), Expr(0));
  const Expr count = ceildiv(size, kBlock);
  std::vector<Expr> missing = none;
  missing[axis] = count * kBlock - size;
  const bool whole = missing[axis] == Expr(0);
  const Tensor padded = whole ? x : pad_zero(x, none, missing);
  Shape cut = x.shape();
  cut[axis] = count;
  cut.insert(cut.begin() + axis + 1, Expr(kBlock));
  const Tensor blocks = padded.reshape(cut), inside = scan_block(blocks, axis + 1, before);
  Tensor totals = last_of(inside, axis + 1);
  if (before) totals = totals + last_of(blocks, axis + 1);
  // Stored, since the next level reads each several times.
  const Tensor earlier = scan(totals.contiguous(), axis, true);
  const Tensor joined = (inside + earlier.unsqueeze(axis + 1)).reshape(padded.shape());
  return whole ? joined : shrink_to(joined, none, x.shape());
}

} // namespace

Tensor Tensor::cumsum(int axis) const {
  const int which = resolve_axis("cumsum", axis, rank());
  const DType d = accumulator(dtype());
  return scan(cast(wide(d)), which, false).cast(d);
}

} // namespace lathe
