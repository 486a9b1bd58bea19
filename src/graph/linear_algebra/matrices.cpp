#include "graph/linear_algebra/matrices.hpp"

#include "lathe/array_functions.hpp"

namespace lathe::graph {
namespace {

constexpr int64_t kMostRows = int64_t{1} << 15;
// Blocks of triangular matrices whose inverses are computed. Larger ones lose digits, smaller ones are slow
// to multiply.
constexpr int64_t kTriangle = 64;
constexpr int kTriangleLevels = 3;

Shape batch_of(const Tensor& x) { return Shape(x.shape().begin(), x.shape().end() - 2); }

Tensor in_batch(const Tensor& x, const Shape& batch, int64_t rows, int64_t columns) {
  return x.reshape({num_elements(batch), rows, columns});
}

/// The blocks on the diagonal, [batch, n / size, size, size]
Tensor diagonal_blocks(const Tensor& x, int64_t size) {
  const int64_t count = x.size(1).value() / size;
  const Tensor apart = x.reshape({x.size(0), count, size, count, size});
  return diagonal(apart, 0, 1, 3).permute({0, 3, 1, 2});
}

} // namespace

Tensor Matrices::result(const Tensor& t, DType as) const {
  Shape shape = batch;
  shape.insert(shape.end(), t.shape().begin() + 1, t.shape().end());
  return t.reshape(shape).cast(as);
}

Matrices matrices_of(std::string_view op, const Tensor& x) {
  if (x.rank() < 2 || !x.size(-1).is_const() || !x.size(-2).is_const())
    fail(ErrorKind::Shape, "{}: shape {}, expected matrices of static sizes in the last two axes", op,
         to_string(x.shape()));
  const int64_t rows = x.size(-2).value(), columns = x.size(-1).value();
  if (rows > kMostRows || columns > kMostRows)
    fail(ErrorKind::Limit, "{}: matrices of {} x {}, expected at most 2^15 rows and columns", op, rows,
         columns);
  const DType dtype = float_dtype(x.dtype());
  const Shape batch = batch_of(x);
  return {in_batch(x.cast(wide(dtype)), batch, rows, columns), batch, rows, columns, dtype};
}

Matrices square_matrices_of(std::string_view op, const Tensor& x) {
  Matrices m = matrices_of(op, x);
  if (m.rows != m.columns)
    fail(ErrorKind::Shape, "{}: shape {}, expected square matrices in the last two axes", op,
         to_string(x.shape()));
  return m;
}

std::pair<Matrices, Matrices> matched_matrices(std::string_view op, const Tensor& a, const Tensor& b) {
  const DType dtype = promote(a.dtype(), b.dtype());
  Matrices left = matrices_of(op, a.cast(dtype)), right = matrices_of(op, b.cast(dtype));
  if (left.rows != right.rows)
    fail(ErrorKind::Shape, "{}: {} and {}, expected as many rows of both", op, to_string(a.shape()),
         to_string(b.shape()));
  const Shape batch = broadcast_shape(op, {left.batch, right.batch});
  const auto spread = [&](Matrices& m, const Tensor& x) {
    if (m.batch == batch) return;
    Shape full = batch;
    full.insert(full.end(), {m.rows, m.columns});
    m.value = in_batch(broadcast_to(x.cast(wide(m.dtype)), full), batch, m.rows, m.columns);
    m.batch = batch;
  };
  spread(left, a);
  spread(right, b);
  return {left, right};
}

Tensor block(const Tensor& x, int64_t row, int64_t rows, int64_t column, int64_t columns) {
  const int last = x.rank() - 1;
  return part_of(part_of(x, last - 1, row, row + rows), last, column, column + columns);
}

Tensor of_blocks(const Tensor& a, const Tensor& b, const Tensor& c, const Tensor& d) {
  return concat({concat({a, b}, -1), concat({c, d}, -1)}, -2);
}

Tensor identity_of(const Tensor& x, int64_t rows, int64_t columns) {
  return Tensor::eye(rows, columns, x.dtype());
}

Tensor grown(const Tensor& x, int64_t rows, int64_t columns) {
  const int64_t first_row = x.size(-2).value(), first_column = x.size(-1).value();
  if (rows == first_row && columns == first_column) return x;
  std::vector<Expr> before(x.shape().size(), 0), after(x.shape().size(), 0);
  after[after.size() - 2] = rows - first_row;
  after.back() = columns - first_column;
  const Tensor row = Tensor::iota({rows, columns}, 0), column = Tensor::iota({rows, columns}, 1);
  const Tensor corner = (row - column == first_row - first_column) & (row >= first_row);
  return where(corner, Tensor::ones({}, x.dtype()), pad_zero(x, before, after));
}

Tensor grown(const Tensor& x, int64_t size) { return grown(x, size, size); }

Tensor transposed(const Tensor& x) { return x.transpose(); }

Tensor rows_at(const Tensor& x, const Tensor& places) {
  const Shape shape{x.size(0), places.size(1), x.size(2)};
  return x.gather(1, broadcast_to(places.unsqueeze(2), shape));
}

Cut cut_for(int64_t n, int64_t size, int most_levels, int64_t multiple) {
  int levels = 0;
  while (levels < most_levels && (n + (int64_t{1} << levels) - 1) >> levels > size) ++levels;
  int64_t leaf = std::max<int64_t>(1, (n + (int64_t{1} << levels) - 1) >> levels);
  if (leaf > multiple) leaf = (leaf + multiple - 1) / multiple * multiple;
  return {leaf, levels};
}

Tensor inverse_blocks(const Tensor& lower, int64_t size) {
  // Blocks of twice the size from those of the size: [[A, 0], [B, C]] has [[1/A, 0], [-1/C B 1/A, 1/C]].
  int64_t whole = 1;
  while (whole < size) whole *= 2;
  const Tensor blocks = grown(diagonal_blocks(lower, size), whole);
  const Expr count = blocks.size(0) * blocks.size(1);
  const Tensor each = blocks.reshape({count, whole, whole});
  Tensor inverse = diagonal(each).reciprocal().reshape({count, whole, 1, 1});
  for (int64_t n = 1; n < whole; n *= 2) {
    const Tensor pairs = inverse.reshape({count, whole / n / 2, 2, n, n});
    const Tensor a = pairs.index({Ellipsis{}, 0, Slice{}, Slice{}}),
                 c = pairs.index({Ellipsis{}, 1, Slice{}, Slice{}});
    const Tensor b = block(diagonal_blocks(each, 2 * n), n, n, 0, n);
    const Tensor zero = Tensor::zeros(a.shape(), a.dtype());
    inverse = of_blocks(a, zero, -c.matmul(b.matmul(a)), c);
  }
  return block(inverse.reshape({blocks.size(0), blocks.size(1), whole, whole}), 0, size, 0, size);
}

Tensor forward(const Tensor& lower, const Tensor& inverses, const Tensor& b) {
  const int64_t count = inverses.size(1).value(), n = lower.size(1).value(), columns = b.size(2).value();
  if (count == 1) return inverses.index({Slice{}, 0}).matmul(b);
  const int64_t blocks = count / 2, head = n / count * blocks, tail = n - head;
  const Tensor first =
      forward(block(lower, 0, head, 0, head), part_of(inverses, 1, 0, blocks), block(b, 0, head, 0, columns));
  const Tensor rest = block(b, head, tail, 0, columns) - block(lower, head, tail, 0, head).matmul(first);
  return concat(
      {first, forward(block(lower, head, tail, head, tail), part_of(inverses, 1, blocks, count), rest)}, 1);
}

Tensor solve_lower(const Tensor& lower, const Tensor& b) {
  const int64_t n = lower.size(1).value(), columns = b.size(2).value();
  if (n == 0) return b;
  const Cut cut = cut_for(n, kTriangle, kTriangleLevels);
  const Tensor whole = grown(lower, cut.whole());
  const Tensor filled = pad_zero(b, {0, 0, 0}, {0, cut.whole() - n, 0});
  return block(forward(whole, inverse_blocks(whole, cut.size), filled), 0, n, 0, columns);
}

Tensor solve_upper(const Tensor& upper, const Tensor& b) {
  // Both axes reversed, an upper triangle is a lower one.
  return solve_lower(upper.flip({1, 2}), b.flip(1)).flip(1);
}

Tensor moved_to_diagonal(const Tensor& rows) {
  const Expr batch = rows.size(0);
  const int64_t blocks = rows.size(1).value(), size = rows.size(2).value(), w = rows.size(3).value();
  // In memory, rows that are `size` longer begin `size` later each time.
  const Tensor longer = pad_zero(rows.transpose(1, 2), {0, 0, 0, 0}, {0, 0, 0, size});
  const Tensor flat = part_of(longer.reshape({batch, size, blocks * (w + size)}), 2, 0, blocks * w);
  return flat.reshape({batch, size, blocks, w}).transpose(1, 2).reshape({batch, w, w});
}

} // namespace lathe::graph
