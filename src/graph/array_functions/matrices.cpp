// Matrices in the last two axes: triangles and diagonals; and the products of all pairs of elements.
#include <algorithm>

#include "graph/tensor_impl.hpp"
#include "lathe/array_functions.hpp"

namespace lathe {
using namespace graph;
namespace {

/// How far each element of a matrix lies to the right of the main diagonal: column - row, which no size makes
/// overflow.
Tensor right_of_diagonal(Expr rows, Expr columns) {
  const Shape shape{rows, columns};
  return index_along(1, shape) - index_along(0, shape);
}

/// How far the elements of x's matrices lie to the right of the diagonal.
Tensor right_of_diagonal(std::string_view op, const Tensor& x) {
  if (x.rank() < 2)
    fail(ErrorKind::Shape, "{}: shape {}, expected at least two axes", op, to_string(x.shape()));
  return right_of_diagonal(x.size(-2), x.size(-1));
}

/// x where `kept`, else 0: a choice and not a product, so that NaN outside leaves nothing.
Tensor only(const Tensor& kept, const Tensor& x) { return where(kept, x, Tensor::zeros({}, x.dtype())); }

/// One step along a diagonal is a step along both axes, so that the diagonal is a view of any tensor.
Tensor diagonal_of(std::string_view op, const Tensor& x, int64_t offset, int axis1, int axis2) {
  if (x.rank() < 2)
    fail(ErrorKind::Shape, "{}: shape {}, expected at least two axes", op, to_string(x.shape()));
  const int row = resolve_axis(op, axis1, x.rank()), column = resolve_axis(op, axis2, x.rank());
  if (row == column) fail(ErrorKind::Axis, "{}: axis {} twice, expected distinct axes", op, row);
  const Expr rows = x.shape()[row], columns = x.shape()[column];
  if (offset >= columns.lo() || offset <= -rows.lo())
    fail(ErrorKind::Value, "{}: offset {} of {} rows and {} columns, expected one in ({}, {})", op, offset,
         to_string(rows), to_string(columns), -rows.lo(), columns.lo());
  const std::vector<Expr> strides = row_major_strides(x.shape());
  Shape shape;
  std::vector<Expr> steps;
  for (int axis = 0; axis < x.rank(); ++axis) {
    if (axis == row || axis == column) continue;
    shape.push_back(x.shape()[axis]);
    steps.push_back(strides[axis]);
  }
  shape.push_back(offset < 0 ? min(rows + offset, columns) : min(rows, columns - offset));
  steps.push_back(strides[row] + strides[column]);
  const Expr start = offset < 0 ? strides[row] * -offset : strides[column] * offset;
  return view_op(x, View(std::move(shape), std::move(steps), start, {}));
}

/// The matrix with this vector as a diagonal.
Tensor diagonal_matrix(const Tensor& vector, int64_t offset) {
  constexpr int64_t kMost = int64_t{1} << 60;
  if (offset < -kMost || offset > kMost)
    fail(ErrorKind::Limit, "diag: offset {}, expected a matrix of at most 2^60 bytes", offset);
  const int64_t added = offset < 0 ? -offset : offset;
  const Expr size = vector.shape()[0] + added;
  check_shape("diag", {size, size}, vector.dtype());
  // Element [i, i + offset] is vector[i]: the vector runs along the rows, or, if it has to begin below the
  // first one, along the columns.
  const Tensor longer = pad_zero(vector, {0}, {added});
  const Tensor values = view_op(longer, View::contiguous(offset < 0 ? Shape{1, size} : Shape{size, 1}));
  return only(right_of_diagonal(size, size) == offset, values);
}

Tensor flat_axis(const Tensor& x, bool along_rows) {
  const Expr count = num_elements(x.shape());
  return view_op(x, View::contiguous(along_rows ? Shape{count, 1} : Shape{1, count}));
}

} // namespace

Tensor tril(const Tensor& x, Whole diagonal) {
  return only(right_of_diagonal("tril", x) <= int64_t{diagonal}, x);
}

Tensor triu(const Tensor& x, Whole diagonal) {
  return only(right_of_diagonal("triu", x) >= int64_t{diagonal}, x);
}

Tensor diagonal(const Tensor& x, Whole offset, Axis axis1, Axis axis2) {
  return diagonal_of("diagonal", x, offset, axis1, axis2);
}

Tensor diag(const Tensor& x, Whole offset) {
  if (x.rank() == 1) return diagonal_matrix(x, offset);
  if (x.rank() != 2)
    fail(ErrorKind::Shape, "diag: shape {}, expected a vector or a matrix", to_string(x.shape()));
  return diagonal_of("diag", x, offset, 0, 1);
}

Tensor trace(const Tensor& x, Whole offset) { return diagonal_of("trace", x, offset, -2, -1).sum(-1); }

Tensor outer(const Tensor& a, const Tensor& b) {
  const Tensor rows = flat_axis(a, true), columns = flat_axis(b, false);
  check_shape("outer", {rows.shape()[0], columns.shape()[1]}, promote(a.dtype(), b.dtype()));
  return rows * columns;
}

Tensor kron(const Tensor& a, const Tensor& b) {
  // [a, 1] * [1, b] -> [a, b] -> [ab], along each axis.
  const size_t rank = std::max(a.shape().size(), b.shape().size());
  Shape left, right, apart, joined;
  for (size_t i = 0; i < rank; ++i) {
    const auto size = [&](const Shape& s) { return i + s.size() < rank ? Expr(1) : s[i + s.size() - rank]; };
    const Expr m = size(a.shape()), n = size(b.shape());
    left.insert(left.end(), {m, Expr(1)});
    right.insert(right.end(), {Expr(1), n});
    apart.insert(apart.end(), {m, n});
  }
  check_shape("kron", apart, promote(a.dtype(), b.dtype()));
  for (size_t i = 0; i < apart.size(); i += 2) joined.push_back(apart[i] * apart[i + 1]);
  return view_op(view_op(a, View::contiguous(left)) * view_op(b, View::contiguous(right)),
                 View::contiguous(joined));
}

} // namespace lathe
