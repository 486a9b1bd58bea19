// Orthonormal bases by Householder's reflections, and least squares.
//
// A reflection is I - 2 v v^T for a vector v of length 1. A product of them, first to last, is I - V T V^T
// with the vectors as columns of V, where 1/T is the upper triangle of V^T V with 1/2 on the diagonal. So
// many reflections are applied as products.
#include "graph/function.hpp"
#include "graph/linear_algebra/matrices.hpp"
#include "lathe/array_functions.hpp"
#include "lathe/functions.hpp"
#include "lathe/linalg.hpp"
#include "lathe/scan.hpp"

namespace lathe {
using namespace graph;
namespace {

// As of elimination: columns one by one, blocks in a loop, halves written out.
constexpr int64_t kReflectedColumns = 32;
constexpr int64_t kReflectedPanel = 256;
constexpr int kReflectionLevels = 2;

struct ReflectedPanel {
  Tensor vectors; // [batch, m, w], zero above the diagonal
  Tensor rest;    // [batch, m, w]: the columns, reflected; R above the diagonal
};

/// 1/T
Tensor inverse_factor(const Tensor& vectors) {
  const int64_t w = vectors.size(2).value();
  return triu(transposed(vectors).matmul(vectors), 1) + identity_of(vectors, w, w) * 0.5;
}
/// x, reflected by the first vector first: x - V T^T V^T x.
Tensor reflected(const Tensor& vectors, const Tensor& x) {
  return x - vectors.matmul(solve_lower(transposed(inverse_factor(vectors)), transposed(vectors).matmul(x)));
}

/// Of columns that are the rows of x [batch, w, m]; their diagonal begins in row `first`.
ReflectedPanel reflected_by_columns(const Tensor& x, const Tensor& first) {
  const DType dtype = x.dtype();
  const Tensor zero = Tensor::zeros({}, dtype), one = Tensor::ones({}, dtype);
  const Tensor place = Tensor::iota({1, x.size(2)}, 1);
  // Elements are at most 1: what is shorter than this is nothing beside the rounding of the largest.
  const Tensor nothing = number(dtype == DType::F64 ? 1e-140 : 1e-15, dtype);
  const auto step = [&](const std::vector<Tensor>& state, const std::vector<Tensor>& row) -> ScanStep {
    const Tensor diagonal_row = first + row[0];
    const Tensor column = state[0].take(row[0], 1);
    const Tensor below = where(place < diagonal_row, zero, column);
    const Tensor head = column.take(diagonal_row, 1).unsqueeze(-1);
    const Tensor length = below.square().sum(1, true).sqrt();
    const Tensor longer = where(head < zero, head - length, head + length);
    const Tensor here = place == diagonal_row;
    const Tensor vector = where(here, longer, below) / (2.0 * length * (length + head.abs())).sqrt();
    const Tensor v = where(length < nothing, where(here, one, zero), vector);
    const Tensor products = state[0].matmul(v.unsqueeze(2));
    return {{state[0] - 2.0 * products * v.unsqueeze(1)}, {v}};
  };
  const Scanned made = scan(step, {x}, {Tensor::arange(x.size(1).value())});
  return {made.stacked[0].permute({1, 2, 0}), transposed(made.state[0])};
}

/// Step k reflects by the first kColumns of what is left of x, whose rows are columns, and moves the others
/// to the front.
ReflectedPanel reflected_by_blocks(const Tensor& x, int64_t first) {
  const Expr batch = x.size(0);
  const int64_t w = x.size(1).value(), m = x.size(2).value(), blocks = w / kReflectedColumns;
  if (w % kReflectedColumns != 0 || blocks == 1) return reflected_by_columns(x, Tensor::scalar(first));
  const auto step = [&](const std::vector<Tensor>& state, const std::vector<Tensor>& row) -> ScanStep {
    const ReflectedPanel front = reflected_by_columns(part_of(state[0], 1, 0, kReflectedColumns), row[0]);
    const Tensor others = transposed(part_of(state[0], 1, kReflectedColumns, w));
    const Tensor next =
        pad_zero(transposed(reflected(front.vectors, others)), {0, 0, 0}, {0, kReflectedColumns, 0});
    return {{next}, {front.vectors, front.rest}};
  };
  const Scanned made = scan(step, {x}, {Tensor::arange(first, first + w, kReflectedColumns)});
  const auto joined = [&](const Tensor& t) { return t.permute({1, 2, 0, 3}).reshape({batch, m, w}); };
  return {joined(made.stacked[0]), joined(made.stacked[1])};
}

ReflectedPanel factor(const Tensor& x, int64_t first, int levels) {
  if (levels == 0) return reflected_by_blocks(transposed(x), first);
  const int64_t m = x.size(1).value(), half = x.size(2).value() / 2;
  const ReflectedPanel left = factor(block(x, 0, m, 0, half), first, levels - 1);
  const ReflectedPanel right =
      factor(reflected(left.vectors, block(x, 0, m, half, half)), first + half, levels - 1);
  return {concat({left.vectors, right.vectors}, 2), concat({left.rest, right.rest}, 2)};
}

/// Of [batch, m, k] with m >= k > 0.
QR factor(const Tensor& x) {
  const int64_t m = x.size(1).value(), k = x.size(2).value();
  // Squares of elements that are at most 1 do not overflow.
  const Tensor most = x.abs().max({1, 2}, true);
  const Tensor scale = where(isfinite(most) & (most > 0), most, Tensor::ones({}, x.dtype()));
  const Cut cut = cut_for(k, kReflectedPanel, kReflectionLevels, kReflectedColumns);
  const int64_t added = cut.whole() - k;
  const ReflectedPanel panel = factor(grown(x / scale, m + added, k + added), 0, cut.levels);
  const Tensor vectors = block(panel.vectors, 0, m, 0, k);
  const Tensor heads =
      transposed(block(vectors, 0, k, 0, k)); // V^T times the first k columns of the identity
  const Tensor q = identity_of(x, m, k) - vectors.matmul(solve_upper(inverse_factor(vectors), heads));
  const Tensor r = triu(block(panel.rest, 0, k, 0, k)) * scale;
  return {with_derivative("qr_q", q, {x}), with_derivative("qr_r", r, {x})};
}

} // namespace

QR qr(const Tensor& x) {
  const Matrices m = matrices_of("qr", x);
  const int64_t k = std::min(m.rows, m.columns), more = m.columns - k;
  const Expr batch = m.value.size(0);
  if (k == 0)
    return {m.result(Tensor::zeros({batch, m.rows, 0}, m.value.dtype())),
            m.result(Tensor::zeros({batch, 0, m.columns}, m.value.dtype()))};
  const QR made = factor(block(m.value, 0, m.rows, 0, k));
  if (more == 0) return {m.result(made.q), m.result(made.r)};
  const Tensor others = transposed(made.q).matmul(block(m.value, 0, m.rows, k, more));
  return {m.result(made.q), m.result(concat({made.r, others}, 2))};
}

Tensor graph::solved_by_qr(const Tensor& a, const Tensor& b) {
  const QR made = factor(a);
  return triangular_solve(made.r, transposed(made.q).matmul(b), Triangle::Upper);
}

} // namespace lathe
