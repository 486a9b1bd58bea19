// Strassen's algorithm (V. Strassen, "Gaussian elimination is not optimal", Numerische Mathematik 13, 1969):
// a product of two matrices of 2 x 2 blocks by seven products of sums of blocks, where the plain sum takes
// eight.
//
// It is another way to compute the same sums, and rounds differently: over 512 terms the largest difference
// from sums in f64 was 1.0e-6 of the largest result in one level and 1.7e-6 in two, that of plain f32
// sums 1.0e-6 (one trial; tests/unit/strassen_test.cpp). But what is largest in a row or column of one
// operand decides for the neighbours of its block, too: of two rows, one 10^4 times as large as the other,
// the small one was off by 0.7 % of its largest result. An infinity or a NaN may spoil the results of such
// neighbours.
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

/// The same values, but for rounding, in `levels` levels of blocks: a view of a Transform of seven products
/// of a Transform of each operand, which are computed so themselves where there are levels left. Null where
/// read_product gives nothing or something that can't be halved.
NodeRef strassen(const NodeRef& sum, int levels);

} // namespace lathe::graph
