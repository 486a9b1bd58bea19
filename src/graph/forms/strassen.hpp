// Strassen's algorithm (V. Strassen, "Gaussian elimination is not optimal", Numerische Mathematik 13, 1969).
// It computes a product of two matrices of 2 x 2 blocks by seven products of sums of blocks; the plain sum
// takes eight.
//
// The algorithm computes the same sums in another way, and rounds differently. Over 512 terms, the largest
// difference from sums in f64 was 1.0e-6 of the largest result for one level and 1.7e-6 for two; plain f32
// sums had 1.0e-6 (one trial; tests/unit/strassen_test.cpp). A large row or column of an operand also limits
// the precision of its neighbours, because blocks are added. Of two rows, one 10^4 times as large as the
// other, the small one was off by 0.7 % of its largest result. An infinity or a NaN may spoil the results of
// such neighbours.
#pragma once
#include <optional>

#include "graph/node.hpp"

namespace lathe::graph {

/// Sizes of a product that `strassen` can compute: `batch` products of [rows, terms] and [terms, columns].
struct MatrixProduct {
  int64_t batch, rows, columns, terms;
};
/// Reads a node as a sum of products of two matrices, f32 or f64, of static sizes.
std::optional<MatrixProduct> read_product(const NodeRef& sum);

/// Whether rows, columns and terms can be halved so many times.
bool can_halve(const MatrixProduct& product, int levels);

/// The same values, but for rounding, computed in `levels` levels of blocks. The result is a view of a
/// Transform of seven products of a Transform of each operand. The remaining levels compute those products in
/// turn. Null if read_product gives nothing, or a product that can't be halved.
NodeRef strassen(const NodeRef& sum, int levels);

} // namespace lathe::graph
