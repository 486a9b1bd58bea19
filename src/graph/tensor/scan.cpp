// Scans: cumulative sums, products and extremes. No element waits for the one before it, and every step works
// on vectors. What is said of sums here holds for each op that combines in any grouping.
//
// The axis is cut into blocks of 16. Inside a block, y[j] = x[j] + x[j-1] sums the last two elements, and
// y[j] + y[j-2] the last four. Two more such steps sum all up to j. On a vector these are four shuffles.
//
// The sum of all elements before a block is the sum of a window over the blocks' totals. The window ends just
// before the block; zeros, or the identity of another op, pad the totals in front. So written, the windows
// take work for each pair of blocks. If a schedule goes through the blocks in order, the move carry makes the
// windows of a sum one running sum. Longer axes are first cut into parts, whose totals are summed in the same
// way.
#include "graph/accumulator.hpp"
#include "graph/tensor_impl.hpp"

namespace lathe {
using namespace graph;
namespace {

constexpr int64_t kBlock = 16;
constexpr int64_t kWindow = 256;            // totals; the most that one window sums
constexpr int64_t kPart = kBlock * kWindow; // elements; the most whose blocks fit one window

Tensor combined(Op op, const Tensor& a, const Tensor& b) { return binary_op("scan", op, a, b); }
Tensor total(Op op, const Tensor& x, int axis) { return drop_axes(reduce_op(op, x, {axis}), {axis}); }

/// The sum up to each element along the axis, which has at most kBlock elements.
Tensor scan_block(Op op, const Tensor& x, int axis) {
  Tensor sums = x;
  for (int64_t step = 1; step < std::min(kBlock, x.shape()[axis].hi()); step *= 2)
    sums = combined(op, sums, shifted(op, sums, axis, step));
  return sums;
}

/// The last element along the axis. The result lacks the axis.
Tensor last_of(const Tensor& x, int axis) {
  const Expr size = x.shape()[axis];
  return drop_axes(part_of(x, axis, size - 1, size), {axis});
}

/// The axis cut into two: the pieces, and the `piece` elements of each. Zeros fill up the last piece, for
/// every op: nothing that is kept comes after them.
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
Tensor sums_before(Op op, const Tensor& x, int axis) {
  const Expr size = x.shape()[axis];
  if (size.hi() > kWindow) {
    const Tensor parts = cut(x.contiguous(), axis, kWindow);
    const Tensor earlier = sums_before(op, total(op, parts, axis + 1), axis);
    const Tensor inside = sums_before(op, parts, axis + 1);
    return joined(combined(op, inside, earlier.unsqueeze(axis + 1)), axis, size);
  }
  const std::vector<Expr> none(x.shape().size(), Expr(0));
  std::vector<Expr> front = none;
  front[axis] = size.hi();
  Shape end = x.shape();
  end[axis] = size + (size.hi() - 1); // so that there is a window for each element
  const auto windows = [&](const Tensor& t) {
    return shrink_to(pad_zero(t, front, none), none, end).window(axis, size.hi());
  };
  Tensor earlier = windows(x);
  if (const Scalar start = identity(op, x.dtype()); start != Scalar::zero(x.dtype()))
    earlier = where(windows(Tensor::ones(x.shape(), DType::Bool)), earlier, Tensor::full({}, start));
  return total(op, earlier, x.rank());
}

Tensor scan(Op op, const Tensor& x, int axis) {
  const Expr size = x.shape()[axis];
  if (size.hi() <= kBlock) return scan_block(op, x, axis);
  const bool is_long = size.hi() > kPart;
  const Tensor pieces = cut(x, axis, is_long ? kPart : kBlock);
  // The sums inside blocks are stored, because the sums before each block and the result both read them.
  const Tensor inside = is_long ? scan(op, pieces, axis + 1) : scan_block(op, pieces, axis + 1).contiguous();
  const Tensor totals = is_long ? total(op, pieces, axis + 1) : last_of(inside, axis + 1);
  return joined(combined(op, inside, sums_before(op, totals, axis).unsqueeze(axis + 1)), axis, size);
}

/// Sums and products, in the dtypes of the reductions.
Tensor scan_numbers(Op op, const Tensor& x, int axis) {
  const DType d = accumulator(x.dtype());
  return scan(op, x.cast(wide(d)), axis).cast(d);
}

Tensor scan_largest(const Tensor& x, int axis) {
  return scan(x.dtype() == DType::Bool ? Op::Or : Op::Max, x, axis);
}

/// The values in reversed order. The lowest integer has no negative, but a complement.
Tensor reversed(const Tensor& x) { return is_float(x.dtype()) ? x.neg() : x.bitwise_not(); }

} // namespace

Tensor graph::running(Op combine, const Tensor& x, int axis) { return scan(combine, x, axis); }

Tensor Tensor::cumsum(Axis axis) const {
  return scan_numbers(Op::Add, *this, resolve_axis("cumsum", axis, rank()));
}

Tensor Tensor::cumprod(Axis axis) const {
  return scan_numbers(Op::Mul, *this, resolve_axis("cumprod", axis, rank()));
}

Tensor Tensor::cummax(Axis axis) const { return scan_largest(*this, resolve_axis("cummax", axis, rank())); }

Tensor Tensor::cummin(Axis axis) const {
  return reversed(scan_largest(reversed(*this), resolve_axis("cummin", axis, rank())));
}

} // namespace lathe
