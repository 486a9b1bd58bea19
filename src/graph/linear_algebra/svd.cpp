// Singular values and vectors: reflections from both sides make a matrix of at least as many rows as columns
// bidiagonal, B. The singular values of B are the positive eigenvalues of the tridiagonal matrix with zeros
// on the diagonal and the elements of B, row by row, beside it (Golub and Kahan 1965). The eigenvectors hold
// v[0], u[0], v[1], u[1] and so on.
//
// Inside a panel of columns the matrix stays as it was: the reflected one is A - V Y^T - X U^T, where V and U
// are the vectors of the reflections from the left and from the right.
#include "graph/function.hpp"
#include "graph/linear_algebra/matrices.hpp"
#include "graph/linear_algebra/reflections.hpp"
#include "graph/linear_algebra/tridiagonal.hpp"
#include "lathe/array_functions.hpp"
#include "lathe/functions.hpp"
#include "lathe/linalg.hpp"
#include "lathe/scan.hpp"

namespace lathe {
using namespace graph;
namespace {

/// Halves of columns that are written out, each on the matrix that is left.
constexpr int kBidiagonalLevels = 2;

/// The reflections of the first `count` columns and rows of x [batch, m, n], and what is left.
struct BidiagonalPanels {
  Tensor diagonal, beside; // [batch, count]
  Tensor left, right;      // [batch, count, m], [batch, count, n]: rows are the reflections' vectors
  Tensor rest;             // [batch, m, n], of which the part behind the columns and rows is valid
};

/// The sum of rows[k] factors[k], for [batch, width, n] and [batch, width, 1].
Tensor combined(const Tensor& rows, const Tensor& factors) { return (rows * factors).sum(1); }
/// The products of all rows with v [batch, n].
Tensor products(const Tensor& rows, const Tensor& v) { return (rows * v.unsqueeze(1)).sum(2, true); }
Tensor element(const Tensor& rows, const Tensor& at) { return rows.take(at, 2).unsqueeze(2); }
Tensor product(const Tensor& x, const Tensor& v) { return x.matmul(v.unsqueeze(2)).squeeze(2); }

/// Columns and rows first ... first + width.
ScanStep bidiagonal_step(const Tensor& a, const Tensor& first, int64_t width) {
  const Expr batch = a.size(0), m = a.size(1), n = a.size(2);
  const Tensor zero = Tensor::zeros({}, a.dtype());
  const Tensor row_place = Tensor::iota({1, m}, 1), column_place = Tensor::iota({1, n}, 1);
  const Tensor slot = Tensor::iota({1, width, 1}, 1);
  const Tensor none_m = Tensor::zeros({batch, width, m}, a.dtype()),
               none_n = Tensor::zeros({batch, width, n}, a.dtype());
  const auto step = [&](const std::vector<Tensor>& state, const std::vector<Tensor>& row) -> ScanStep {
    const Tensor &vs = state[0], &ys = state[1], &us = state[2], &xs = state[3], at = first + row[0];
    const Tensor column = a.take(at, 2) - combined(vs, element(ys, at)) - combined(xs, element(us, at));
    const Reflection left = reflection_of(where(row_place >= at, column, zero), at);
    const Tensor& v = left.vector;
    const Tensor all_y =
        product(transposed(a), v) - combined(ys, products(vs, v)) - combined(us, products(xs, v));
    const Tensor y = where(column_place > at, all_y, zero);
    const Tensor across = a.take(at, 1) - combined(ys, element(vs, at)) - combined(us, element(xs, at)) -
                          v.take(at, 1).unsqueeze(1) * y;
    const Reflection right = reflection_of(where(column_place > at, across, zero), at + 1);
    const Tensor& u = right.vector;
    const Tensor all_x = product(a, u) - combined(vs, products(ys, u)) - combined(xs, products(us, u)) -
                         v * (y * u).sum(1, true);
    const Tensor x = where(row_place > at, all_x, zero), here = slot == row[0];
    const auto with = [&](const Tensor& rows, const Tensor& added) {
      return where(here, added.unsqueeze(1), rows);
    };
    return {{with(vs, v), with(ys, y), with(us, u), with(xs, x)}, {left.head, right.head}};
  };
  const Scanned made = scan(step, {none_m, none_n, none_n, none_m}, {Tensor::arange(width)});
  const auto& s = made.state;
  const Tensor difference = concat({transposed(s[0]), transposed(s[3])}, 2).matmul(concat({s[1], s[2]}, 1));
  return {{a - difference}, {made.stacked[0], made.stacked[1], s[0], s[2]}};
}

BidiagonalPanels bidiagonal_columns(const Tensor& x, int64_t count) {
  const Expr batch = x.size(0);
  const int64_t width = panel_width(count);
  const auto step = [&](const std::vector<Tensor>& state, const std::vector<Tensor>& row) {
    return bidiagonal_step(state[0], row[0], width);
  };
  const Scanned made = scan(step, {x}, {Tensor::arange(0, count, width)});
  const auto numbers = [&](const Tensor& t) { return t.permute({2, 0, 1}).reshape({batch, count}); };
  const auto rows = [&](const Tensor& t) {
    return t.permute({1, 0, 2, 3}).reshape({batch, count, t.size(3)});
  };
  return {numbers(made.stacked[0]), numbers(made.stacked[1]), rows(made.stacked[2]), rows(made.stacked[3]),
          made.state[0]};
}

/// Of x with n columns, a multiple of panel_width() << levels.
BidiagonalPanels bidiagonal(const Tensor& x, int levels) {
  const int64_t m = x.size(1).value(), n = x.size(2).value(), count = levels == 0 ? n : n / 2;
  BidiagonalPanels head = bidiagonal_columns(x, count);
  if (levels == 0) return head;
  const BidiagonalPanels tail = bidiagonal(block(head.rest, count, m - count, count, n - count), levels - 1);
  const auto below = [&](const Tensor& a, const Tensor& b) {
    return concat({a, pad_zero(b, {0, 0, count}, {0, 0, 0})}, 1);
  };
  return {concat({head.diagonal, tail.diagonal}, 1),
          concat({head.beside, tail.beside}, 1),
          below(head.left, tail.left),
          below(head.right, tail.right),
          {}};
}

/// Columns that are orthonormal but for those of the smallest singular values, [batch, n, n], made
/// orthonormal: u and v of a singular value near 0 share the errors of one eigenvector.
Tensor orthonormal(const Tensor& columns) {
  const QR made = qr(columns);
  const Tensor signs = diagonal(made.r).unsqueeze(1), zero = Tensor::zeros({}, columns.dtype());
  return where(signs < zero, -made.q, made.q);
}

/// Of [batch, m, n] with m >= n > 0. Without `wants_vectors` only the values.
SVD decomposed(const Tensor& x, bool wants_vectors) {
  const Expr batch = x.size(0);
  const int64_t m = x.size(1).value(), n = x.size(2).value();
  const Scaled scaled = scaled_to_one(x);
  const Cut cut = cut_for(n, kPanel, kBidiagonalLevels, kReflections);
  const int64_t whole = cut.whole();
  const BidiagonalPanels b = bidiagonal(pad_zero(scaled.value, {0, 0, 0}, {0, 0, whole - n}), cut.levels);
  const auto first = [&](const Tensor& t) { return part_of(t, 1, 0, n); };
  const Tensor beside =
      part_of(stack({first(b.diagonal), first(b.beside)}, 2).reshape({batch, 2 * n}), 1, 0, 2 * n - 1);
  const EigenRows found =
      eigen_of_tridiagonal(Tensor::zeros({batch, 2 * n}, x.dtype()), beside, wants_vectors);
  const Tensor order = first(found.values.argsort(1, true));
  const Tensor values = maximum(found.values.gather(1, order), 0.0) * scaled.scale.reshape({batch, 1});
  if (!wants_vectors) return {{}, values, {}};
  const Tensor pairs = rows_at(found.vectors, order).reshape({batch, n, n, 2});
  const Tensor both = pairs.permute({3, 0, 2, 1}).reshape({2 * batch, n, n}); // columns of V, then of U
  const Tensor sides = orthonormal(both.contiguous()).reshape({2, batch, n, n});
  const Tensor v = sides.index({0}), u = pad_zero(sides.index({1}), {0, 0, 0}, {0, m - n, 0});
  return {reflected_back(b.left, u), values, reflected_back(block(b.right, 0, whole, 0, n), v)};
}

/// The matrices, transposed if they have more columns than rows.
Tensor tall(const Matrices& m) { return m.rows < m.columns ? transposed(m.value) : m.value; }

} // namespace

SVD svd(const Tensor& x) {
  const Matrices m = matrices_of("svd", x);
  const int64_t k = std::min(m.rows, m.columns);
  const DType dtype = m.value.dtype();
  const Expr batch = m.value.size(0);
  if (k == 0)
    return {m.result(Tensor::zeros({batch, m.rows, 0}, dtype)), m.result(Tensor::zeros({batch, 0}, dtype)),
            m.result(Tensor::zeros({batch, 0, m.columns}, dtype))};
  const Tensor a = tall(m);
  const SVD made = decomposed(a, true);
  const Tensor u = with_derivative("svd_u", made.u, {a}), v = with_derivative("svd_v", made.vt, {a});
  const Tensor s = m.result(with_derivative("svd_values", made.s, {a}));
  const bool is_tall = m.rows >= m.columns;
  return {m.result(is_tall ? u : v), s, m.result(transposed(is_tall ? v : u))};
}

Tensor svdvals(const Tensor& x) {
  const Matrices m = matrices_of("svdvals", x);
  if (std::min(m.rows, m.columns) == 0) return m.result(Tensor::zeros({m.value.size(0), 0}, m.value.dtype()));
  const Tensor a = tall(m);
  return m.result(with_derivative("svd_values", decomposed(a, false).s, {a}));
}

} // namespace lathe
