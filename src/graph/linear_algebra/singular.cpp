// What follows from singular values: pseudo-inverses, least squares, ranks, condition numbers and norms of
// matrices.
#include <limits>

#include "graph/function.hpp"
#include "graph/linear_algebra/matrices.hpp"
#include "lathe/array_functions.hpp"
#include "lathe/functions.hpp"
#include "lathe/linalg.hpp"

namespace lathe {
using namespace graph;
namespace {

/// The largest of values [..., k] in descending order as [..., 1]; 0 of none.
Tensor largest(const Tensor& s) {
  if (!s.size(-1).is_const(0)) return part_of(s, s.rank() - 1, 0, 1);
  Shape shape = s.shape();
  shape.back() = 1;
  return Tensor::zeros(shape, s.dtype());
}

/// Singular values [..., k] that are more than rounding errors, or than `relative` times the largest.
Tensor counts(std::string_view op, const Tensor& s, const Matrices& m, std::optional<double> relative) {
  if (relative && !(*relative >= 0))
    fail(ErrorKind::Value, "{}: a tolerance of {}, expected 0 or more", op, *relative);
  const double digit = m.dtype == DType::F64 ? 0x1p-52 : 0x1p-23;
  const double factor = relative.value_or(digit * static_cast<double>(std::max(m.rows, m.columns)));
  return s > largest(s) * number(factor, s.dtype());
}

Tensor pseudo_inverse(std::string_view op, const Matrices& m, std::optional<double> relative) {
  const SVD made = svd(m.value);
  const Tensor zero = Tensor::zeros({}, m.value.dtype());
  const Tensor inverse = where(counts(op, made.s, m, relative), made.s.reciprocal(), zero);
  const Tensor value = transposed(made.vt).matmul(inverse.unsqueeze(2) * transposed(made.u));
  return with_derivative("pinv", value, {m.value});
}

} // namespace

Tensor pinv(const Tensor& x, std::optional<double> relative) {
  const Matrices m = matrices_of("pinv", x);
  return m.result(pseudo_inverse("pinv", m, relative));
}

Tensor lstsq(const Tensor& a, const Tensor& b, const LeastSquares& options) {
  const auto [left, right] = matched_matrices("lstsq", a, b);
  if (!options.full_rank)
    return right.result(pseudo_inverse("lstsq", left, options.relative).matmul(right.value));
  if (left.rows < left.columns)
    fail(ErrorKind::Shape, "lstsq: {} and {}, expected no more columns than rows", to_string(a.shape()),
         to_string(b.shape()));
  if (left.columns == 0)
    return right.result(Tensor::zeros({right.value.size(0), 0, right.columns}, right.value.dtype()));
  return right.result(solved_by_qr(left.value, right.value));
}

Tensor matrix_rank(const Tensor& x, std::optional<double> relative) {
  const Matrices m = matrices_of("matrix_rank", x);
  return m.result(counts("matrix_rank", svdvals(m.value), m, relative).cast(DType::I64).sum(1), DType::I64);
}

Tensor cond(const Tensor& x) {
  const Matrices m = matrices_of("cond", x);
  if (m.rows == 0 || m.columns == 0)
    fail(ErrorKind::Shape, "cond: shape {}, expected matrices with elements", to_string(x.shape()));
  const Tensor s = svdvals(m.value);
  const Tensor most = s.max({1}), least = s.min({1});
  const Tensor infinite = number(std::numeric_limits<double>::infinity(), s.dtype());
  return m.result(where(least == Tensor::zeros({}, s.dtype()), infinite, most / least));
}

Tensor matrix_norm(const Tensor& x, MatrixNorm norm) {
  const Matrices m = matrices_of("matrix_norm", x);
  switch (norm) {
  case MatrixNorm::Frobenius: {
    if (m.rows == 0 || m.columns == 0) return m.result(m.value.sum({1, 2}));
    // Squares of elements that are at most 1 do not overflow.
    const Tensor most = m.value.abs().max({1, 2}, true);
    const Tensor one = Tensor::ones({}, most.dtype());
    const Tensor scale = without_derivative(where(isfinite(most) & (most > 0), most, one));
    const Tensor squares = (m.value / scale).square().sum({1, 2});
    return m.result(with_derivative("distance", squares.sqrt(), {squares}) * scale.reshape(squares.shape()));
  }
  case MatrixNorm::Nuclear: return m.result(svdvals(m.value).sum(1));
  case MatrixNorm::Spectral: return m.result(largest(svdvals(m.value)).sum(1));
  case MatrixNorm::Columns: break;
  case MatrixNorm::Rows: break;
  }
  const int summed = norm == MatrixNorm::Columns ? 1 : 2;
  const Tensor sums = m.value.abs().sum({summed});
  return m.result(sums.size(1).is_const(0) ? sums.sum(1) : sums.max({1}));
}

} // namespace lathe
