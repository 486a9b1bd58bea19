// Linear algebra, as numpy.linalg has it. The last two axes are matrices of static sizes, up to 2^15 rows and columns; what is before
// them is a batch, which may be empty and may hold Vars. Matrices of 0 rows give empty results.
//
//   Tensor x = solve(a, b);                          // a [..., n, n], b [..., n, columns]
//   Tensor l = cholesky(covariance);                 // l l^T is the covariance
//   Tensor y = triangular_solve(l, b, Triangle::Lower);
//
// A tensor is computed later, so nothing is thrown because of a matrix's values: where numpy raises LinAlgError, the results are NaN or
// infinite, as each function says. Integers give f32 (up to 16 bits) or f64; half precision is computed in f32. Products of
// blocks do most of the work. Each function has a derivative of its own. Error(Shape) for other shapes than each function expects.
#pragma once
#include <optional>

#include "lathe/tensor.hpp"

namespace lathe {

/// The lower triangular L with L L^T = x, for symmetric positive definite x, of which the lower triangle is read. numpy.linalg.cholesky.
/// NaN from the first column on where x is not positive definite. The derivative is that by a symmetric x.
Tensor cholesky(const Tensor& x);

enum class Triangle { Lower, Upper };
/// The X with A X = B for triangular A, of which the other triangle is not read; batches broadcast. scipy.linalg.solve_triangular.
/// Infinite or NaN where an element of the diagonal is 0. B: [..., n, columns].
Tensor triangular_solve(const Tensor& a, const Tensor& b, Triangle triangle);

/// The X with A X = B, by elimination with partial pivoting; batches broadcast. numpy.linalg.solve with b [..., n, columns]. Infinite or
/// NaN where A is singular in each digit.
Tensor solve(const Tensor& a, const Tensor& b);
/// numpy.linalg.inv. As solve() of the identity.
Tensor inverse(const Tensor& x);
/// numpy.linalg.det. The derivative takes the inverse: it is NaN or infinite where x is singular.
Tensor det(const Tensor& x);
/// The determinant's sign, 0 of a singular matrix, and the logarithm of its size, -infinity there. numpy.linalg.slogdet.
struct SignAndLogarithm {
  Tensor sign, logarithm;
};
SignAndLogarithm slogdet(const Tensor& x);

/// Q [..., m, k] with orthonormal columns and the upper triangular R [..., k, n], for k = min(m, n), with Q R = x: Householder's
/// reflections, so Q is orthonormal whatever x is. numpy.linalg.qr, with LAPACK's signs. The derivative divides by R: NaN or infinite
/// where the first k columns are not independent.
struct QR {
  Tensor q, r;
};
QR qr(const Tensor& x);

/// How lstsq() solves. Singular values up to `relative` times the largest count as 0; the default is that of pinv().
struct LeastSquares {
  std::optional<double> relative{};
  /// The user's word that A has no more columns than rows, and that they are independent: QR in place of singular values, in a
  /// fraction of the time. Infinite or NaN results, or large ones, where they are not.
  bool full_rank = false;
};
/// The X that makes the sum of squares of A X - B least, and of those the shortest, for A [..., m, n] of any rank; batches
/// broadcast. numpy.linalg.lstsq with rcond, b [..., m, columns]; its residuals are those of A X - B, its rank is matrix_rank().
/// The derivative is that at a constant rank. Error(Value) for a negative tolerance; Error(Shape) for m < n with full_rank.
Tensor lstsq(const Tensor& a, const Tensor& b, const LeastSquares& options = {});

/// Of symmetric matrices, of which the lower triangle is read: the eigenvalues [..., n], ascending, and the eigenvectors [..., n, n] as
/// orthonormal columns. numpy.linalg.eigh. NaN where a matrix is not finite. The derivative of the values is that by a symmetric x;
/// that of the vectors is infinite or NaN where two eigenvalues are equal, and depends on the signs, which are any.
struct EigenPairs {
  Tensor values, vectors;
};
EigenPairs eigh(const Tensor& x);
/// The eigenvalues alone, in less time. numpy.linalg.eigvalsh.
Tensor eigvalsh(const Tensor& x);

/// U [..., m, k] and V^T [..., k, n] with orthonormal columns and rows, and the singular values [..., k], descending, for k = min(m, n):
/// U diag(s) V^T = x. numpy.linalg.svd with full_matrices=False. NaN where a matrix is not finite. The derivative of the vectors is
/// infinite or NaN where two singular values are equal or, unless x is square, one is 0.
struct SVD {
  Tensor u, s, vt;
};
SVD svd(const Tensor& x);
/// The singular values alone, in less time. numpy.linalg.svdvals.
Tensor svdvals(const Tensor& x);

/// The pseudo-inverse [..., n, m] by the singular values above `relative` times the largest, by default the rounding error of the
/// dtype times max(m, n). numpy.linalg.pinv with rtol. The derivative is that at a constant rank. Error(Value) for a negative
/// tolerance, of matrix_rank, too.
Tensor pinv(const Tensor& x, std::optional<double> relative = {});
/// How many singular values are above the same limit: i64[...]. numpy.linalg.matrix_rank with rtol.
Tensor matrix_rank(const Tensor& x, std::optional<double> relative = {});
/// The largest singular value by the smallest, infinite where that is 0. numpy.linalg.cond. Error(Shape) for matrices without elements.
Tensor cond(const Tensor& x);
/// Frobenius: the root of the sum of squares, "fro". Spectral and Nuclear: the largest singular value and the sum of all, 2 and "nuc".
/// Columns and Rows: the largest sum of a column's or a row's absolute values, 1 and infinity.
enum class MatrixNorm { Frobenius, Spectral, Nuclear, Columns, Rows };
/// numpy.linalg.matrix_norm. 0 without elements.
Tensor matrix_norm(const Tensor& x, MatrixNorm norm = MatrixNorm::Frobenius);

}  // namespace lathe
