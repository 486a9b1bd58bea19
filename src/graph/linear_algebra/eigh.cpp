// Eigenvalues and eigenvectors of symmetric matrices: reflections from both sides make the matrix
// tridiagonal, and the eigenvectors of that are reflected back.
//
// Reflections are I - v v^T here, with vectors v of length sqrt(2) or 0. Inside a panel of columns the matrix
// stays as it was: the reflected one is A - V W^T - W V^T. A step reads all of A once, for A v. After the
// panel the difference is a product.
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
constexpr int kTridiagonalLevels = 2;

/// A = Q T Q^T, where Q is the product of the reflections.
struct Tridiagonal {
  Tensor diagonal, beside; // [batch, n]; the last of `beside` is 0
  Tensor vectors;          // [batch, n, n]: rows are the reflections' vectors
};

/// The reflections of the first `count` columns of x [batch, n, n], and what is left.
struct TridiagonalPanels {
  Tensor diagonal, beside; // [batch, count]
  Tensor vectors;          // [batch, count, n]
  Tensor rest;             // [batch, n, n], of which the part behind the columns is valid
};

/// Columns first ... first + width.
ScanStep tridiagonal_step(const Tensor& x, const Tensor& first, int64_t width) {
  const Expr batch = x.size(0), n = x.size(1);
  const Tensor zero = Tensor::zeros({}, x.dtype());
  const Tensor place = Tensor::iota({1, n}, 1), slot = Tensor::iota({1, width, 1}, 1);
  const Tensor none = Tensor::zeros({batch, width, n}, x.dtype());
  const auto step = [&](const std::vector<Tensor>& state, const std::vector<Tensor>& row) -> ScanStep {
    const Tensor &v_rows = state[0], &w_rows = state[1], column = first + row[0];
    const Tensor at_v = v_rows.take(column, 2).unsqueeze(2), at_w = w_rows.take(column, 2).unsqueeze(2);
    const Tensor current = x.take(column, 1) - (v_rows * at_w + w_rows * at_v).sum(1);
    const Reflection made = reflection_of(where(place > column, current, zero), column + 1);
    const Tensor& v = made.vector;
    const Tensor by_v = (v_rows * v.unsqueeze(1)).sum(2, true), by_w = (w_rows * v.unsqueeze(1)).sum(2, true);
    const Tensor all = x.matmul(v.unsqueeze(2)).reshape({batch, n}) - (v_rows * by_w + w_rows * by_v).sum(1);
    const Tensor product = where(place > column, all, zero);
    const Tensor w = product - 0.5 * (product * v).sum(1, true) * v;
    const Tensor here = slot == row[0];
    return {{where(here, v.unsqueeze(1), v_rows), where(here, w.unsqueeze(1), w_rows)},
            {current.take(column, 1), made.head}};
  };
  const Scanned made = scan(step, {none, none}, {Tensor::arange(width)});
  const Tensor difference = concat({transposed(made.state[0]), transposed(made.state[1])}, 2)
                                .matmul(concat({made.state[1], made.state[0]}, 1));
  return {{x - difference}, {made.stacked[0], made.stacked[1], made.state[0]}};
}

TridiagonalPanels tridiagonal_columns(const Tensor& x, int64_t count) {
  const Expr batch = x.size(0), n = x.size(1);
  const int64_t width = panel_width(count);
  const auto step = [&](const std::vector<Tensor>& state, const std::vector<Tensor>& row) {
    return tridiagonal_step(state[0], row[0], width);
  };
  const Scanned made = scan(step, {x}, {Tensor::arange(0, count, width)});
  const auto joined = [&](const Tensor& t) { return t.permute({2, 0, 1}).reshape({batch, count}); };
  return {joined(made.stacked[0]), joined(made.stacked[1]),
          made.stacked[2].permute({1, 0, 2, 3}).reshape({batch, count, n}), made.state[0]};
}

/// Of n rows, a multiple of kReflections << levels.
Tridiagonal tridiagonal(const Tensor& x, int levels) {
  const int64_t n = x.size(1).value(), count = levels == 0 ? n : n / 2;
  const TridiagonalPanels head = tridiagonal_columns(x, count);
  if (levels == 0) return {head.diagonal, head.beside, head.vectors};
  const Tridiagonal tail = tridiagonal(block(head.rest, count, n - count, count, n - count), levels - 1);
  return {concat({head.diagonal, tail.diagonal}, 1), concat({head.beside, tail.beside}, 1),
          concat({head.vectors, pad_zero(tail.vectors, {0, 0, count}, {0, 0, 0})}, 1)};
}

/// Of symmetric x with n > 0, in ascending order; the vectors are rows.
EigenRows eigen_rows(const Tensor& x, bool wants_vectors) {
  const int64_t n = x.size(1).value();
  const Scaled scaled = scaled_to_one(x);
  const Cut cut = cut_for(n, kPanel, kTridiagonalLevels, kReflections);
  const int64_t whole = cut.whole();
  const Tridiagonal t = tridiagonal(pad_zero(scaled.value, {0, 0, 0}, {0, whole - n, whole - n}), cut.levels);
  EigenRows found =
      eigen_of_tridiagonal(part_of(t.diagonal, 1, 0, n), part_of(t.beside, 1, 0, n - 1), wants_vectors);
  if (wants_vectors)
    found.vectors = transposed(reflected_back(block(t.vectors, 0, whole, 0, n), transposed(found.vectors)));
  const Tensor order = found.values.argsort(1);
  return {found.values.gather(1, order) * scaled.scale.reshape({x.size(0), 1}),
          wants_vectors ? rows_at(found.vectors, order) : Tensor()};
}

/// The lower triangle and its mirror image.
Tensor symmetric(const Tensor& x) { return tril(x) + transposed(tril(x, -1)); }

} // namespace

EigenPairs eigh(const Tensor& x) {
  const Matrices m = square_matrices_of("eigh", x);
  if (m.rows == 0) return {m.result(Tensor::zeros({m.value.size(0), 0}, m.value.dtype())), m.result(m.value)};
  const EigenRows rows = eigen_rows(symmetric(m.value), true);
  return {m.result(with_derivative("eigh_values", rows.values, {m.value})),
          m.result(with_derivative("eigh_vectors", transposed(rows.vectors), {m.value}))};
}

Tensor eigvalsh(const Tensor& x) {
  const Matrices m = square_matrices_of("eigvalsh", x);
  if (m.rows == 0) return m.result(Tensor::zeros({m.value.size(0), 0}, m.value.dtype()));
  return m.result(with_derivative("eigh_values", eigen_rows(symmetric(m.value), false).values, {m.value}));
}

} // namespace lathe
