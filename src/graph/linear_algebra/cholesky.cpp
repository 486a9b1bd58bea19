// Cholesky's factor: leaves column by column, everything else as products.
#include "graph/function.hpp"
#include "graph/linear_algebra/matrices.hpp"
#include "lathe/array_functions.hpp"
#include "lathe/linalg.hpp"
#include "lathe/scan.hpp"

namespace lathe {
using namespace graph;
namespace {

// Columns that are taken off one by one, then as blocks of a loop, then by halves: products do more of the
// work at each stage. The halves are written out, so their number is bounded.
constexpr int64_t kColumns = 64;
constexpr int64_t kLeaf = 256;
constexpr int kLevels = 2;

struct Factor {
  Tensor lower, inverses; // [batch, n, n], and inverse_blocks() of it
};

/// Step j takes column j of what is left, and takes the product of the factor's column with itself off.
Tensor by_columns(const Tensor& x) {
  const int64_t n = x.size(1).value();
  const Tensor place = Tensor::iota({1, n}, 1);
  const auto step = [&](const std::vector<Tensor>& state, const std::vector<Tensor>& row) -> ScanStep {
    const Tensor j = row[0];
    // The matrix is symmetric: its row is its column, and contiguous.
    const Tensor column = state[0].take(j, 1);
    const Tensor root = column.take(j, 1).sqrt().unsqueeze(-1);
    const Tensor factor =
        where(place < j, Tensor::zeros({}, x.dtype()), where(place == j, root, column / root));
    return {{state[0] - factor.unsqueeze(2) * factor.unsqueeze(1)}, {factor}};
  };
  return scan(step, {x}, {Tensor::arange(n)}).stacked[0].permute({1, 2, 0});
}

/// Step k factors the first kColumns of what is left, takes their product off the others, and moves those to
/// the front.
Factor by_blocks(const Tensor& x) {
  const int64_t n = x.size(1).value(), blocks = n / kColumns, others = n - kColumns;
  if (n % kColumns != 0 || blocks == 1) {
    const Tensor lower = by_columns(x);
    return {lower, inverse_blocks(lower, n)};
  }
  const auto step = [&](const std::vector<Tensor>& state, const std::vector<Tensor>&) -> ScanStep {
    const Tensor lower = by_columns(block(state[0], 0, kColumns, 0, kColumns)),
                 inverses = inverse_blocks(lower, kColumns);
    const Tensor across = forward(lower, inverses, block(state[0], 0, kColumns, kColumns, others));
    const Tensor rest =
        block(state[0], kColumns, others, kColumns, others) - transposed(across).matmul(across);
    const Tensor next = pad_zero(rest, {0, 0, 0}, {0, kColumns, kColumns});
    return {{next}, {concat({transposed(lower), across}, 2), inverses.index({Slice{}, 0})}};
  };
  ScanOptions options;
  options.steps = blocks;
  const Scanned made = scan(step, {x}, {}, options);
  return {transposed(moved_to_diagonal(made.stacked[0].transpose(0, 1))), made.stacked[1].transpose(0, 1)};
}

Factor factor_of(const Tensor& x, int levels) {
  const int64_t n = x.size(1).value(), half = n / 2;
  if (levels == 0) return by_blocks(x);
  const Factor first = factor_of(block(x, 0, half, 0, half), levels - 1);
  const Tensor across = forward(first.lower, first.inverses, transposed(block(x, half, half, 0, half)));
  const Tensor below = transposed(across);
  const Factor second = factor_of(block(x, half, half, half, half) - below.matmul(across), levels - 1);
  const Tensor zero = Tensor::zeros(across.shape(), across.dtype());
  return {of_blocks(first.lower, zero, below, second.lower), concat({first.inverses, second.inverses}, 1)};
}

Tensor factor_of(const Tensor& x) {
  const int64_t n = x.size(1).value();
  if (n == 0) return x;
  const Cut cut = cut_for(n, kLeaf, kLevels, kColumns);
  // Only the lower triangle is read.
  const Tensor lower = tril(x), symmetric = lower + transposed(tril(x, -1));
  return block(factor_of(grown(symmetric, cut.whole()), cut.levels).lower, 0, n, 0, n);
}

} // namespace

Tensor cholesky(const Tensor& x) {
  const Matrices m = square_matrices_of("cholesky", x);
  return m.result(with_derivative("cholesky", factor_of(m.value), {m.value}));
}

} // namespace lathe
