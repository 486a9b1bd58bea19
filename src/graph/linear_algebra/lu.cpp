// Solutions, inverses and determinants by elimination with partial pivoting.
//
// No row moves while columns are eliminated: a row that was a pivot is marked as used, and the pivots' places
// are the permutation. So every panel has all rows, and all panels of a width are one kernel. Columns are cut
// by halves; all but the panels are products.
#include "graph/function.hpp"
#include "graph/linear_algebra/matrices.hpp"
#include "lathe/array_functions.hpp"
#include "lathe/functions.hpp"
#include "lathe/linalg.hpp"
#include "lathe/scan.hpp"

namespace lathe {
using namespace graph;
namespace {

// Columns that are eliminated one by one, then as blocks of a loop, then by halves: products do more of the
// work at each stage. The halves are written out, so their number is bounded.
constexpr int64_t kEliminatedColumns = 32;
constexpr int64_t kEliminatedPanel = 256;
constexpr int kEliminationLevels = 2;

/// Of columns [batch, n, w], after those of earlier panels.
struct EliminatedPanel {
  Tensor
      lower; // [batch, n, w]: multiples of the pivots' rows, 1 at the pivot, 0 in rows that were used before
  Tensor upper;  // [batch, w, w]: the pivots' rows
  Tensor pivots; // [batch, w]
  Tensor used;   // [batch, n]: 1 where a row was a pivot
};

/// Step j eliminates column j; the columns are rows of x: [batch, w, n].
EliminatedPanel eliminated_by_columns(const Tensor& x, const Tensor& used) {
  const Expr batch = x.size(0), n = x.size(2), width = x.size(1);
  const DType dtype = x.dtype();
  const Tensor zero = Tensor::zeros({}, dtype), one = Tensor::ones({}, dtype);
  const Tensor row_place = Tensor::iota({1, n}, 1), column_place = Tensor::iota({1, width}, 1);
  const auto step = [&](const std::vector<Tensor>& state, const std::vector<Tensor>& row) -> ScanStep {
    const Tensor j = row[0], taken = state[1] != zero;
    const Tensor column = state[0].take(j, 1);
    const Tensor pivot = where(taken, -one, column.abs()).argmax(1, true);
    const Tensor value = column.gather(1, pivot);
    const Tensor here = row_place == pivot;
    // A column of zeros has no multiples: the determinant is then 0, and not NaN.
    const Tensor multiple = where(taken | here | (value == zero), zero, column / value);
    const Tensor upper =
        state[0].gather(2, broadcast_to(pivot.unsqueeze(2), {batch, width, 1})).reshape({batch, width});
    const Tensor rest = state[0] - upper.unsqueeze(2) * multiple.unsqueeze(1);
    return {{rest, where(here, one, state[1])},
            {where(here, one, multiple), where(column_place < j, zero, upper), pivot.reshape({batch})}};
  };
  const Scanned made = scan(step, {x, used}, {Tensor::arange(width.value())});
  return {made.stacked[0].permute({1, 2, 0}), made.stacked[1].transpose(0, 1),
          made.stacked[2].transpose(0, 1), made.state[1]};
}

/// Step k eliminates the first kColumns of what is left of x [batch, w, n], whose rows are columns, and moves
/// the others to the front.
EliminatedPanel eliminated_by_blocks(const Tensor& x, const Tensor& used) {
  const Expr batch = x.size(0);
  const int64_t w = x.size(1).value(), n = x.size(2).value(), blocks = w / kEliminatedColumns;
  if (w % kEliminatedColumns != 0 || blocks == 1) return eliminated_by_columns(x, used);
  const auto step = [&](const std::vector<Tensor>& state, const std::vector<Tensor>&) -> ScanStep {
    const EliminatedPanel first =
        eliminated_by_columns(part_of(state[0], 1, 0, kEliminatedColumns), state[1]);
    const Tensor others = part_of(state[0], 1, kEliminatedColumns, w);
    const Tensor upper =
        solve_lower(rows_at(first.lower, first.pivots), rows_at(transposed(others), first.pivots));
    const Tensor rest = others - transposed(upper).matmul(transposed(first.lower));
    return {{pad_zero(rest, {0, 0, 0}, {0, kEliminatedColumns, 0}), first.used},
            {first.lower, concat({first.upper, upper}, 2), first.pivots}};
  };
  ScanOptions options;
  options.steps = blocks;
  const Scanned made = scan(step, {x, used}, {}, options);
  const Tensor lower = made.stacked[0].permute({1, 2, 0, 3}).reshape({batch, n, w});
  return {lower, moved_to_diagonal(made.stacked[1].transpose(0, 1)),
          made.stacked[2].transpose(0, 1).reshape({batch, w}), made.state[1]};
}

EliminatedPanel eliminated(const Tensor& x, const Tensor& used, int levels) {
  if (levels == 0) return eliminated_by_blocks(transposed(x), used);
  const int64_t n = x.size(1).value(), half = x.size(2).value() / 2;
  const EliminatedPanel first = eliminated(block(x, 0, n, 0, half), used, levels - 1);
  const Tensor right = block(x, 0, n, half, half);
  const Tensor upper = solve_lower(rows_at(first.lower, first.pivots), rows_at(right, first.pivots));
  const EliminatedPanel second = eliminated(right - first.lower.matmul(upper), first.used, levels - 1);
  const Tensor zero = Tensor::zeros(upper.shape(), upper.dtype());
  return {concat({first.lower, second.lower}, 2), of_blocks(first.upper, upper, zero, second.upper),
          concat({first.pivots, second.pivots}, 1), second.used};
}

/// The rows of A in the order `pivots` are lower times upper.
struct Elimination {
  Tensor lower, upper, pivots;
};

Elimination elimination_of(const Tensor& x) {
  const int64_t n = x.size(1).value();
  const Cut cut = cut_for(n, kEliminatedPanel, kEliminationLevels, kEliminatedColumns);
  const Tensor whole = grown(x, cut.whole());
  const EliminatedPanel panel =
      eliminated(whole, Tensor::zeros({x.size(0), cut.whole()}, x.dtype()), cut.levels);
  const Tensor pivots = part_of(panel.pivots, 1, 0, n);
  return {block(rows_at(panel.lower, pivots), 0, n, 0, n), block(panel.upper, 0, n, 0, n), pivots};
}

/// 1 or -1, as the permutation takes an even or odd number of exchanges.
Tensor parity_of(const Tensor& pivots, DType dtype) {
  const int64_t n = pivots.size(1).value();
  const Tensor places = pivots.cast(DType::I32);
  const Tensor later = Tensor::iota({n, n}, 0) < Tensor::iota({n, n}, 1);
  const Tensor crossed = (places.unsqueeze(2) > places.unsqueeze(1)) & later;
  const Tensor odd = crossed.cast(DType::I64).sum({1, 2}) % 2;
  return (1 - 2 * odd).cast(dtype);
}

Tensor solved(const Matrices& a, const Tensor& b) {
  if (a.rows == 0) return b;
  const Elimination e = elimination_of(a.value);
  const Tensor x = solve_upper(e.upper, solve_lower(e.lower, rows_at(b, e.pivots)));
  return with_derivative("solve", x, {a.value, b});
}

} // namespace

Tensor solve(const Tensor& a, const Tensor& b) {
  (void)square_matrices_of("solve", a);
  const auto [left, right] = matched_matrices("solve", a, b);
  return right.result(solved(left, right.value));
}

Tensor inverse(const Tensor& x) {
  const Matrices m = square_matrices_of("inverse", x);
  return m.result(solved(m, broadcast_to(identity_of(m.value, m.rows, m.rows), m.value.shape())));
}

Tensor det(const Tensor& x) {
  const Matrices m = square_matrices_of("det", x);
  if (m.rows == 0) return m.result(Tensor::ones({m.value.size(0)}, m.value.dtype()));
  const Elimination e = elimination_of(m.value);
  const Tensor value = diagonal(e.upper).prod(1) * parity_of(e.pivots, m.value.dtype());
  return m.result(with_derivative("det", value, {m.value}));
}

SignAndLogarithm slogdet(const Tensor& x) {
  const Matrices m = square_matrices_of("slogdet", x);
  const Shape count{m.value.size(0)};
  const DType dtype = m.value.dtype();
  if (m.rows == 0) return {m.result(Tensor::ones(count, dtype)), m.result(Tensor::zeros(count, dtype))};
  const Elimination e = elimination_of(m.value);
  const Tensor pivots = diagonal(e.upper);
  return {m.result(without_derivative(pivots.sign().prod(1) * parity_of(e.pivots, dtype))),
          m.result(with_derivative("slogdet", pivots.abs().log().sum(1), {m.value}))};
}

} // namespace lathe
