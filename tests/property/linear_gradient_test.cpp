// Derivatives of Fourier transforms and of linear algebra, against differences.
#include <doctest/doctest.h>

#include "lathe/array_functions.hpp"
#include "lathe/fft.hpp"
#include "lathe/linalg.hpp"
#include "support/differences.hpp"

using namespace lathe;
using namespace lathe::test;

using Tensors = std::vector<Tensor>;

TEST_CASE("Fourier transforms") {
  const auto rfft_parts = [](const Tensors& x) { return view_as_real(rfft(x[0])); };
  for (const int64_t n : {6, 7, 32}) {
    CAPTURE(n);
    check_differences(
        {[](const Tensors& x) { return view_as_real(fft(Complex{x[0], x[1]})); }, {{2, n}, {2, n}}}, 1);
    check_differences({rfft_parts, {{2, n}}}, 2);
    const Shape bins{2, n / 2 + 1};
    check_differences({[&](const Tensors& x) { return irfft({x[0], x[1]}, {.n = n}); }, {bins, bins}}, 3);
  }
  check_differences({rfft_parts, {{131}}}, 4);
}

namespace {

/// A matrix of the inputs' elements that is far from singular.
Tensor regular(const Tensor& x) { return x + Tensor::eye(x.size(-1).value(), -1, DType::F64) * 5.0; }
Tensor positive(const Tensor& x) {
  return x.matmul(x.transpose()) + Tensor::eye(x.size(-1).value(), -1, DType::F64);
}

} // namespace

TEST_CASE("solutions, inverses and determinants") {
  const Shape square{2, 4, 4}, right{2, 4, 3};
  check_differences({[](const Tensors& x) { return solve(regular(x[0]), x[1]); }, {square, right}}, 1);
  check_differences({[](const Tensors& x) { return solve(regular(x[0]), x[1]); }, {{4, 4}, right}},
                    2); // a broadcasts
  check_differences({[](const Tensors& x) { return inverse(regular(x[0])); }, {square}}, 3);
  check_differences({[](const Tensors& x) { return det(x[0]); }, {square}}, 4);
  check_differences({[](const Tensors& x) { return slogdet(regular(x[0])).logarithm; }, {square}}, 5);
  for (const Triangle triangle : {Triangle::Lower, Triangle::Upper})
    check_differences(
        {[&](const Tensors& x) { return triangular_solve(regular(x[0]), x[1], triangle); }, {square, right}},
        6);
  check_second_differences(
      {[](const Tensors& x) { return solve(regular(x[0]), x[1]); }, {{3, 3}, {3, 2}}, -1, 1}, 7);
  check_second_differences({[](const Tensors& x) { return det(regular(x[0])); }, {{3, 3}}, -1, 1}, 8);
}

TEST_CASE("Cholesky's factor") {
  check_differences({[](const Tensors& x) { return cholesky(positive(x[0])); }, {{2, 4, 4}}}, 1);
  check_second_differences({[](const Tensors& x) { return cholesky(positive(x[0])); }, {{3, 3}}, -1, 1}, 2);
}

TEST_CASE("orthonormal bases and least squares") {
  const Shape tall{2, 5, 3}, wide{3, 5};
  const auto q = [](const Tensors& x) { return qr(x[0]).q; };
  const auto r = [](const Tensors& x) { return qr(x[0]).r; };
  for (const Shape& shape : {tall, wide, Shape{4, 4}}) {
    check_differences({q, {shape}}, 1, 1e-5);
    check_differences({r, {shape}}, 2, 1e-5);
  }
  for (const bool full_rank : {true, false}) {
    const auto solved = [=](const Tensors& x) { return lstsq(x[0], x[1], {.full_rank = full_rank}); };
    check_differences({solved, {tall, {2, 5, 2}}}, 3, 1e-5);
  }
  check_differences({[](const Tensors& x) { return lstsq(x[0], x[1]); }, {wide, {3, 2}}}, 4, 1e-5);
}

TEST_CASE("eigenvalues and eigenvectors") {
  // A matrix of the elements' symmetric part whose eigenvalues are apart. Signs of vectors are any, so the
  // functions do not depend on them.
  const auto apart = [](const Tensor& x) {
    return x + x.transpose() + diag(Tensor::arange(x.size(-1).value()).cast(DType::F64) * 20.0);
  };
  const Shape shape{2, 3, 3};
  check_differences({[&](const Tensors& x) { return eigvalsh(apart(x[0])); }, {shape}}, 1, 1e-5);
  check_differences({[&](const Tensors& x) { return eigh(apart(x[0])).vectors.square(); }, {shape}}, 2, 1e-5);
  check_differences({[&](const Tensors& x) {
                       const EigenPairs e = eigh(apart(x[0]));
                       return (e.vectors * e.values.square().unsqueeze(-2)).matmul(e.vectors.transpose());
                     },
                     {shape}},
                    3, 1e-5);
  check_second_differences({[&](const Tensors& x) { return eigvalsh(apart(x[0])); }, {{3, 3}}, -1, 1}, 4,
                           1e-4);
}

TEST_CASE("singular values and vectors, pseudo-inverses and norms") {
  const auto apart = [](const Tensor& x) {
    const int64_t m = x.size(-2).value(), n = x.size(-1).value();
    return x + Tensor::eye(m, n, DType::F64) * (Tensor::arange(n).cast(DType::F64) * 10.0 + 10.0);
  };
  for (const Shape& shape : {Shape{2, 3, 3}, Shape{5, 3}, Shape{3, 4}}) {
    check_differences({[&](const Tensors& x) { return svdvals(apart(x[0])); }, {shape}}, 1, 1e-5);
    check_differences({[&](const Tensors& x) { return svd(apart(x[0])).u.square(); }, {shape}}, 2, 1e-5);
    check_differences({[&](const Tensors& x) { return svd(apart(x[0])).vt.square(); }, {shape}}, 3, 1e-5);
    check_differences({[&](const Tensors& x) { return pinv(apart(x[0])); }, {shape}}, 4, 1e-5);
  }
  for (const MatrixNorm norm :
       {MatrixNorm::Frobenius, MatrixNorm::Spectral, MatrixNorm::Nuclear, MatrixNorm::Columns})
    check_differences({[&](const Tensors& x) { return matrix_norm(apart(x[0]), norm); }, {{2, 4, 3}}}, 5,
                      1e-5);
}
