// Linear algebra against Eigen: random matrices of sizes around those of leaves, panels and blocks, empty
// ones, batches, singular ones.
#include <doctest/doctest.h>

#include <cstdlib>
#include <string_view>
#include <vector>

#include "lathe/linalg.hpp"
#include "support/errors.hpp"
#include "support/matrices.hpp"
#include "support/tensor_values.hpp"

using namespace lathe;
using namespace lathe::test;

namespace {

const std::vector<int64_t> kSizes =
    kCompiled ? std::vector<int64_t>{1, 5, 33} : std::vector<int64_t>{0, 1, 2, 3, 5, 8, 17, 31, 32, 33};
const std::vector<int64_t> kBlocked = kCompiled ? std::vector<int64_t>{70} : std::vector<int64_t>{70, 130};

std::vector<int64_t> sizes_for(DType dtype) {
  std::vector<int64_t> sizes = kSizes;
  if (dtype == DType::F64) sizes.insert(sizes.end(), kBlocked.begin(), kBlocked.end());
  return sizes;
}

Matrix positive(int64_t n, uint32_t seed) {
  const Matrix a = matrix(n, n, seed);
  return a * a.transpose() / static_cast<double>(std::max<int64_t>(n, 1)) + Matrix::Identity(n, n);
}

} // namespace

TEST_CASE("cholesky") {
  for (const DType dtype : kDTypes)
    for (const int64_t n : sizes_for(dtype)) {
      CAPTURE(n);
      const Tensor x = tensor(positive(n, static_cast<uint32_t>(n)), dtype);
      const Matrix a = values(x), lower = values(cholesky(x));
      check_zero(lower * lower.transpose() - a, size_of(a), dtype);
      if (n > 0) check_zero(lower - Matrix(a.llt().matrixL()), size_of(a), dtype);
      CHECK(Matrix(lower.triangularView<Eigen::StrictlyUpper>()).isZero(0));
    }
}

TEST_CASE("cholesky reads the lower triangle, and gives NaN from the column on where x is not positive") {
  Matrix a = positive(5, 1), noisy = a;
  noisy.triangularView<Eigen::StrictlyUpper>().setConstant(kNan);
  CHECK((values(cholesky(tensor(noisy))) - values(cholesky(tensor(a)))).isZero(0));
  a(2, 2) = -1;
  const Matrix lower = values(cholesky(tensor(a)));
  CHECK(lower.leftCols(2).allFinite());
  CHECK(std::isnan(lower(2, 2)));
  CHECK(std::isnan(lower(4, 4)));
}

TEST_CASE("triangular_solve") {
  for (const DType dtype : kDTypes)
    for (const int64_t n : sizes_for(dtype))
      for (const int64_t columns : {1, 3}) {
        CAPTURE(n);
        const Tensor a = tensor(matrix(n, n, static_cast<uint32_t>(n)) +
                                    2 * static_cast<double>(n) * Matrix::Identity(n, n),
                                dtype);
        const Tensor b = tensor(matrix(n, columns, 7), dtype);
        const Matrix lower = values(a).triangularView<Eigen::Lower>(),
                     upper = values(a).triangularView<Eigen::Upper>();
        check_zero(lower * values(triangular_solve(a, b, Triangle::Lower)) - values(b), 2, dtype);
        check_zero(upper * values(triangular_solve(a, b, Triangle::Upper)) - values(b), 2, dtype);
      }
}

TEST_CASE("triangular_solve does not read the other triangle") {
  Matrix a = matrix(6, 6, 1) + 9 * Matrix::Identity(6, 6), noisy = a;
  noisy.triangularView<Eigen::StrictlyUpper>().setConstant(kNan);
  const Tensor b = tensor(matrix(6, 2, 2));
  const auto lower = [&](const Matrix& m) { return values(triangular_solve(tensor(m), b, Triangle::Lower)); };
  CHECK((lower(noisy) - lower(a)).isZero(0));
  a.diagonal()[2] = 0;
  CHECK(!lower(a).row(2).allFinite());
}

TEST_CASE("solve and inverse") {
  for (const DType dtype : kDTypes)
    for (const int64_t n : sizes_for(dtype)) {
      CAPTURE(n);
      const Tensor x = tensor(matrix(n, n, static_cast<uint32_t>(n) + 50), dtype),
                   b = tensor(matrix(n, 3, 3), dtype);
      const Matrix a = values(x), y = values(solve(x, b));
      check_zero(a * y - values(b), size_of(a) * size_of(y), dtype);
      const Matrix other = values(inverse(x));
      check_zero(a * other - Matrix::Identity(n, n), size_of(a) * size_of(other), dtype);
      if (n > 0)
        check_zero(y - a.partialPivLu().solve(values(b)), size_of(other) * size_of(a) * size_of(y), dtype);
    }
}

TEST_CASE("matrices of several panels") {
  if (!kCompiled || on_interpreter()) return;
  const int64_t n = 300;
  const Matrix a = matrix(n, n, 1), b = matrix(n, 2, 2), spd = positive(n, 3);
  const Matrix x = values(solve(tensor(a), tensor(b))), lower = values(cholesky(tensor(spd)));
  const QR made = qr(tensor(a));
  check_zero(values(made.q) * values(made.r) - a, size_of(a), DType::F64);
  check_zero(values(made.q).transpose() * values(made.q) - Matrix::Identity(n, n), 2, DType::F64);
  check_zero(a * x - b, size_of(a) * size_of(x), DType::F64);
  check_zero(lower * lower.transpose() - spd, size_of(spd), DType::F64);
}

TEST_CASE("elimination exchanges rows: permutations, and pivots that are tiny or 0") {
  Matrix a = Matrix::Zero(7, 7);
  for (int i = 0; i < 7; ++i) a(i, (i * 3 + 1) % 7) = i % 2 ? -2 : 1;
  CHECK((values(inverse(tensor(a))) - a.inverse()).isZero(0));
  CHECK(det(tensor(a)).item<double>() == a.determinant());
  Matrix tiny(2, 2);
  tiny << 1e-20, 1, 1, 1;
  check_zero(values(solve(tensor(tiny), tensor(Matrix::Ones(2, 1)))) - (Matrix(2, 1) << 0, 1).finished(), 1,
             DType::F64);
}

TEST_CASE("det and slogdet") {
  for (const DType dtype : kDTypes)
    for (const int64_t n : sizes_for(dtype)) {
      CAPTURE(n);
      const Tensor x = tensor(matrix(n, n, static_cast<uint32_t>(n) + 9), dtype);
      const Matrix a = values(x);
      const Eigen::PartialPivLU<Matrix> lu(n > 0 ? a : Matrix::Identity(1, 1));
      const double want = lu.determinant(),
                   logarithm = lu.matrixLU().diagonal().cwiseAbs().array().log().sum();
      const double tolerance = 50 * digit(dtype) * static_cast<double>(n + 1);
      if (std::isfinite(static_cast<float>(want)))
        CHECK(std::fabs(det(x).item<double>() - want) <= tolerance * std::fabs(want) * 10);
      const SignAndLogarithm got = slogdet(x);
      CHECK(got.sign.item<double>() == (want < 0 ? -1 : 1));
      CHECK(std::fabs(got.logarithm.item<double>() - logarithm) <=
            tolerance * 10 * (1 + std::fabs(logarithm)));
    }
}

TEST_CASE("of singular matrices the determinant is 0 and the solution is not finite") {
  Matrix a(3, 3);
  a << 1, 2, 3, 2, 4, 6, 1, 0, 1;
  CHECK(det(tensor(a)).item<double>() == 0);
  CHECK(slogdet(tensor(a)).sign.item<double>() == 0);
  CHECK(slogdet(tensor(a)).logarithm.item<double>() == -double(kInf));
  CHECK(!values(solve(tensor(a), tensor(Matrix::Ones(3, 1)))).allFinite());
  CHECK(det(Tensor::zeros({4, 4})).item<float>() == 0);
  a(0, 0) = kNan;
  CHECK(std::isnan(det(tensor(a)).item<double>()));
}

TEST_CASE("qr") {
  struct Sizes {
    int64_t rows, columns;
  };
  std::vector<Sizes> sizes{{5, 3}, {3, 5}, {40, 2}, {1, 4}, {4, 1}, {33, 40}};
  if (!kCompiled) sizes.insert(sizes.end(), {{3, 0}, {0, 3}, {90, 70}});
  for (const int64_t n : kSizes) sizes.push_back({n, n});
  for (const DType dtype : kDTypes)
    for (const auto [m, n] : sizes) {
      CAPTURE(m);
      CAPTURE(n);
      const Tensor x = tensor(matrix(m, n, static_cast<uint32_t>(m * 7 + n)), dtype);
      const QR made = qr(x);
      const int64_t k = std::min(m, n);
      REQUIRE(made.q.shape() == Shape{m, k});
      REQUIRE(made.r.shape() == Shape{k, n});
      const Matrix a = values(x), q = values(made.q), r = values(made.r);
      check_zero(q * r - a, size_of(a), dtype);
      check_zero(q.transpose() * q - Matrix::Identity(k, k), 2, dtype);
      CHECK(Matrix(r.triangularView<Eigen::StrictlyLower>()).isZero(0));
      if (k == 0) continue;
      // Householder's R: the same as Eigen's but for signs.
      const Matrix want = a.householderQr().matrixQR().topRows(k).triangularView<Eigen::Upper>();
      check_zero(r.cwiseAbs() - want.cwiseAbs(), size_of(a), dtype);
    }
}

TEST_CASE("Q is orthonormal also where columns are 0, equal, huge or tiny") {
  Matrix a = matrix(6, 4, 1);
  a.col(1).setZero();
  a.col(3) = a.col(0);
  for (const double scale : {1.0, 1e300, 1e-300, 0.0}) {
    CAPTURE(scale);
    const Matrix x = a * scale;
    const QR made = qr(tensor(x));
    const Matrix q = values(made.q);
    check_zero(q.transpose() * q - Matrix::Identity(4, 4), 1, DType::F64);
    check_zero(q * values(made.r) - x, size_of(x), DType::F64);
  }
  // Columns that only differ in their last digits.
  Matrix close = Matrix::Ones(9, 5);
  for (int i = 0; i < 5; ++i) close(i, i) += 1e-15;
  const Matrix q = values(qr(tensor(close)).q);
  check_zero(q.transpose() * q - Matrix::Identity(5, 5), 1, DType::F64);
}

TEST_CASE("lstsq") {
  for (const bool full_rank : {true, false}) {
    CAPTURE(full_rank);
    const LeastSquares how{.full_rank = full_rank};
    for (const DType dtype : kDTypes) {
      const Tensor x = tensor(matrix(20, 6, 1), dtype), b = tensor(matrix(20, 2, 2), dtype);
      const Matrix a = values(x), want = a.householderQr().solve(values(b));
      check_zero(values(lstsq(x, b, how)) - want, 4, dtype);
    }
    const Tensor many = random<double>({3, 7, 2}, 1), one = random<double>({7, 1}, 2),
                 y = lstsq(many, one, how);
    REQUIRE(y.shape() == Shape{3, 2, 1});
    for (int i = 0; i < 3; ++i) {
      // What is left is orthogonal to the columns.
      const Matrix a = values(many[i]), left = values(one) - a * values(y[i]);
      check_zero(a.transpose() * left, 20, DType::F64);
    }
    CHECK(lstsq(Tensor::zeros({4, 0}), Tensor::zeros({4, 2}), how).shape() == Shape{0, 2});
    check_error(ErrorKind::Shape, "lstsq",
                [&] { (void)lstsq(Tensor::zeros({3, 2}), Tensor::zeros({2, 1}), how); });
  }
  const Tensor wide = Tensor::zeros({2, 3}), right = Tensor::zeros({2, 1});
  check_error(ErrorKind::Shape, "lstsq", [&] { (void)lstsq(wide, right, {.full_rank = true}); });
  check_error(ErrorKind::Value, "lstsq", [&] { (void)lstsq(wide, right, {.relative = -1.0}); });
  check_error(ErrorKind::Shape, "qr", [] { (void)qr(Tensor::zeros({3})); });
}

TEST_CASE("the shortest solution of least squares, where there are many") {
  for (const DType dtype : kDTypes)
    for (const auto& [m, n, rank] : std::vector<std::array<int64_t, 3>>{
             {9, 4, 4}, {4, 9, 4}, {8, 6, 3}, {6, 8, 1}, {5, 5, 4}, {1, 7, 1}, {7, 1, 1}, {5, 3, 0}}) {
      CAPTURE(m);
      CAPTURE(n);
      CAPTURE(rank);
      const auto seed = static_cast<uint32_t>(10 * m + n);
      const Matrix a = matrix(m, rank, seed) * matrix(rank, n, seed + 1), b = matrix(m, 2, seed + 2);
      // Both decide by the same limit, and all of these ranks are clear in either dtype.
      Eigen::CompleteOrthogonalDecomposition<Matrix> eigen;
      eigen.setThreshold(1e-4);
      eigen.compute(a);
      const Matrix got = values(lstsq(tensor(a, dtype), tensor(b, dtype), {.relative = 1e-4}));
      check_zero(got - Matrix(eigen.solve(b)), 300, dtype);
    }
  // The default limit: the rounding error of the dtype, times the larger size.
  Matrix close = Matrix::Identity(3, 3);
  close(2, 2) = 1e-15;
  close(1, 1) = 1e-8;
  const Matrix x = values(lstsq(tensor(close), tensor(Matrix::Ones(3, 1))));
  CHECK(x(1, 0) == doctest::Approx(1e8));
  CHECK(x(2, 0) == doctest::Approx(1e15)); // above 2^-52 * 3
  close(2, 2) = 1e-16;
  CHECK(values(lstsq(tensor(close), tensor(Matrix::Ones(3, 1))))(2, 0) == 0);
}

TEST_CASE("batches, which broadcast, and empty ones") {
  const Tensor a = random<double>({2, 1, 5, 5}, 1) + Tensor::eye(5, 5, DType::F64) * 7.0,
               b = random<double>({3, 5, 2}, 2);
  const Tensor x = solve(a, b), y = triangular_solve(a, b, Triangle::Upper);
  REQUIRE(x.shape() == Shape{2, 3, 5, 2});
  REQUIRE(y.shape() == Shape{2, 3, 5, 2});
  const Tensor d = det(a);
  REQUIRE(d.shape() == Shape{2, 1});
  for (int i = 0; i < 2; ++i)
    for (int j = 0; j < 3; ++j) {
      check_zero(values(a(i, 0)) * values(x(i, j)) - values(b[j]), 2, DType::F64);
      check_zero(Matrix(values(a(i, 0)).triangularView<Eigen::Upper>()) * values(y(i, j)) - values(b[j]), 2,
                 DType::F64);
      CHECK(std::fabs(d(i, 0).item<double>() / values(a(i, 0)).determinant() - 1) < 1e-14);
    }
  const Tensor spd = a.matmul(a.transpose()), lower = cholesky(spd);
  for (int i = 0; i < 2; ++i)
    check_zero(values(lower(i, 0)) * values(lower(i, 0)).transpose() - values(spd(i, 0)),
               size_of(values(spd(i, 0))), DType::F64);
  CHECK(inverse(Tensor::zeros({0, 4, 4})).to_vector<float>().empty());
  CHECK(det(Tensor::zeros({0, 4, 4})).shape() == Shape{0});
  CHECK(det(Tensor::zeros({3, 0, 0})).to_vector<float>() == std::vector<float>{1, 1, 1});
  CHECK(solve(Tensor::zeros({3, 3}), Tensor::zeros({3, 0})).shape() == Shape{3, 0});
  const Var n("n", 1, 9);
  CHECK(inverse(Tensor::input("x", {n, 4, 4})).shape() == Shape{n, 4, 4});
}

TEST_CASE("linear algebra in other dtypes") {
  const Tensor whole = Tensor::from(std::vector<int32_t>{2, 1, 1, 3}, {2, 2});
  CHECK(det(whole).dtype() == DType::F64);
  CHECK(std::fabs(det(whole).item<double>() - 5) < 1e-14);
  CHECK(inverse(whole.cast(DType::I8)).dtype() == DType::F32);
  const Tensor half = cholesky(whole.cast(DType::F16));
  CHECK(half.dtype() == DType::F16);
  check_close(as_doubles(half), std::vector<double>{std::sqrt(2.0), 0, std::sqrt(0.5), std::sqrt(2.5)}, 1e-3);
  CHECK(solve(whole, whole.cast(DType::F32)).dtype() == DType::F64);
}

TEST_CASE("bad calls of linear algebra") {
  const Tensor a = Tensor::zeros({3, 4}), square = Tensor::zeros({3, 3}), v = Tensor::zeros({3});
  const Var n("n", 1, 9);
  check_error(ErrorKind::Shape, "cholesky", [&] { (void)cholesky(a); });
  check_error(ErrorKind::Shape, "cholesky", [&] { (void)cholesky(v); });
  check_error(ErrorKind::Shape, "inverse", [&] { (void)inverse(Tensor::input("x", {n, n})); });
  check_error(ErrorKind::Shape, "det", [&] { (void)det(a); });
  check_error(ErrorKind::Shape, "slogdet", [&] { (void)slogdet(v); });
  check_error(ErrorKind::Shape, "solve", [&] { (void)solve(a, square); });
  check_error(ErrorKind::Shape, "solve", [&] { (void)solve(square, v); });
  check_error(ErrorKind::Shape, "solve", [&] { (void)solve(square, Tensor::zeros({4, 1})); });
  check_error(ErrorKind::Shape, "solve",
              [&] { (void)solve(Tensor::zeros({2, 3, 3}), Tensor::zeros({5, 3, 1})); });
  check_error(ErrorKind::Shape, "triangular_solve", [&] { (void)triangular_solve(a, a, Triangle::Lower); });
  check_error(ErrorKind::Limit, "inverse", [&] { (void)inverse(Tensor::zeros({1 << 16, 1 << 16})); });
}
