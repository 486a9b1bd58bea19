// What the decompositions share: matrices as [batch, rows, columns] of a float dtype, their blocks, and the
// products and solutions of blocks of triangular matrices.
#pragma once
#include <string_view>
#include <vector>

#include "graph/tensor_impl.hpp"

namespace lathe::graph {

/// A checked argument: `value` is [batch, rows, columns] in the dtype that is computed in.
struct Matrices {
  Tensor value;
  Shape batch; // as given
  int64_t rows = 0, columns = 0;
  DType dtype = DType::F32; // of the results

  /// [batch, ...] with the axes of the batch as they were given, in `dtype`. For indices and signs too: `as`
  /// is their dtype.
  Tensor result(const Tensor& t) const { return result(t, dtype); }
  Tensor result(const Tensor& t, DType as) const;
};

/// Error(Shape) naming op unless x has two axes or more, the last two of static sizes; `square`: of equal
/// ones. Error(Limit) for more than 2^15 rows or columns.
Matrices matrices_of(std::string_view op, const Tensor& x);
Matrices square_matrices_of(std::string_view op, const Tensor& x);
/// Of two arguments that are broadcast to one batch and dtype.
std::pair<Matrices, Matrices> matched_matrices(std::string_view op, const Tensor& a, const Tensor& b);

/// The part [row, row + rows) x [column, column + columns).
Tensor block(const Tensor& x, int64_t row, int64_t rows, int64_t column, int64_t columns);
/// [[a, b], [c, d]]
Tensor of_blocks(const Tensor& a, const Tensor& b, const Tensor& c, const Tensor& d);
/// The matrix with ones on the diagonal of `rows` x `columns`, in x's dtype.
Tensor identity_of(const Tensor& x, int64_t rows, int64_t columns);
/// Matrices grown to `rows` x `columns`, with ones on the diagonal that begins at the old corner; square ones
/// to `size`.
Tensor grown(const Tensor& x, int64_t rows, int64_t columns);
Tensor grown(const Tensor& x, int64_t size);
Tensor transposed(const Tensor& x);
/// Rows at places [batch, w] of [batch, n, columns].
Tensor rows_at(const Tensor& x, const Tensor& places);

/// How a matrix is cut for recursion by halves: size << levels is at least n.
struct Cut {
  int64_t size = 1; // of a leaf
  int levels = 0;
  int64_t whole() const { return size << levels; }
};
/// Leaves of at most `size`, or as many as `most_levels` allow. A leaf that is larger than `multiple` is a
/// multiple of it.
Cut cut_for(int64_t n, int64_t size, int most_levels, int64_t multiple = 1);

/// The inverses of the blocks on the diagonal of lower triangular matrices: [batch, blocks, size, size] of
/// [batch, n, n], where size divides n. Only the lower triangle is read.
Tensor inverse_blocks(const Tensor& lower, int64_t size);
/// The solution X of L X = B, where `inverses` are inverse_blocks() of L.
Tensor forward(const Tensor& lower, const Tensor& inverses, const Tensor& b);
/// The same for any lower triangular L.
Tensor solve_lower(const Tensor& lower, const Tensor& b);
/// U X = B for upper triangular U: the lower triangle of U is not read.
Tensor solve_upper(const Tensor& upper, const Tensor& b);

/// The X that makes the sum of squares of A X - B least, for A of as many rows as columns or more, which are
/// independent.
Tensor solved_by_qr(const Tensor& a, const Tensor& b);

/// Blocks of rows [batch, blocks, size, w], each of which begins at its diagonal, as [batch, w, w], for w =
/// blocks * size. What a block has beyond the matrix's end is 0.
Tensor moved_to_diagonal(const Tensor& rows);

} // namespace lathe::graph
