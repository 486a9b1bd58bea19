// Eigenvalues and singular values: residuals and orthogonality on random, clustered, repeated, graded and
// empty matrices, values against Eigen.
#include <doctest/doctest.h>

#include <Eigen/Dense>
#include <functional>
#include <vector>

#include "lathe/linalg.hpp"
#include "support/errors.hpp"
#include "support/matrices.hpp"
#include "support/tensor_values.hpp"

using namespace lathe;
using namespace lathe::test;

namespace {

struct Sizes {
  int64_t rows, columns;
};
struct Choice {
  std::vector<int64_t> sizes;
  std::vector<Sizes> rectangles;
  int64_t hard;
  std::vector<DType> hard_dtypes;
  bool also_diagonal; // of hard matrices, those that are not turned
};
const Choice kChosen =
    kCompiled ? Choice{{1, 5}, {{7, 4}}, on_interpreter() ? 16 : 40, {DType::F64}, false}
              : Choice{{0, 1, 2, 3, 5, 17, 33},
                       {{0, 3}, {3, 0}, {1, 1}, {1, 6}, {6, 1}, {2, 2}, {5, 3}, {3, 5}, {20, 17}, {6, 34}},
                       20,
                       {DType::F32, DType::F64},
                       true};

Matrix vector(const Tensor& t) { return values(t.unsqueeze(-1)); }
Matrix orthogonal(int64_t n, uint32_t seed) { return matrix(n, n, seed).householderQr().householderQ(); }
Matrix diagonal(int64_t rows, int64_t columns, const std::function<double(int64_t)>& value) {
  Matrix d = Matrix::Zero(rows, columns);
  for (int64_t i = 0; i < std::min(rows, columns); ++i) d(i, i) = value(i);
  return d;
}
double largest(const Matrix& m) { return m.size() == 0 ? 1 : m.cwiseAbs().maxCoeff(); }

void check_eigh(const Tensor& x) {
  const DType dtype = x.dtype();
  const EigenPairs got = eigh(x);
  const Matrix a = values(x), v = values(got.vectors), w = vector(got.values);
  const int64_t n = a.rows();
  // Sizes near the ends of the exponents: all in units of the largest element.
  const double unit = largest(a) > 0 ? largest(a) : 1;
  const Matrix scaled = a / unit, w_scaled = w / unit;
  check_zero(scaled * v - v * w_scaled.col(0).asDiagonal(), size_of(scaled), dtype);
  check_zero(v.transpose() * v - Matrix::Identity(n, n), 1, dtype);
  for (int64_t i = 1; i < n; ++i) CHECK(w(i - 1, 0) <= w(i, 0));
  check_zero(vector(eigvalsh(x)) / unit - w_scaled, size_of(scaled), dtype);
  if (n > 0)
    check_zero(w_scaled - Eigen::SelfAdjointEigenSolver<Matrix>(scaled).eigenvalues(), 2 * size_of(scaled),
               dtype);
}

void check_svd(const Tensor& x) {
  const DType dtype = x.dtype();
  const SVD got = svd(x);
  const Matrix a = values(x), u = values(got.u), vt = values(got.vt), s = vector(got.s);
  const int64_t k = std::min(a.rows(), a.cols());
  REQUIRE(got.u.shape() == Shape{a.rows(), k});
  REQUIRE(got.vt.shape() == Shape{k, a.cols()});
  const double unit = largest(a) > 0 ? largest(a) : 1;
  const Matrix scaled = a / unit, s_scaled = s / unit;
  const double size = std::max(size_of(scaled), size_of(scaled.transpose()));
  check_zero(u * s_scaled.col(0).asDiagonal() * vt - scaled, size, dtype);
  check_zero(u.transpose() * u - Matrix::Identity(k, k), 1, dtype);
  check_zero(vt * vt.transpose() - Matrix::Identity(k, k), 1, dtype);
  for (int64_t i = 0; i < k; ++i) CHECK((i == 0 ? s(i, 0) : s(i - 1, 0)) >= s(i, 0));
  CHECK((k == 0 || s(k - 1, 0) >= 0));
  check_zero(vector(svdvals(x)) / unit - s_scaled, size, dtype);
  if (k > 0)
    check_zero(s_scaled - Eigen::JacobiSVD<Eigen::MatrixXd>(scaled).singularValues(), 2 * size, dtype);
}

struct Hard {
  const char* name;
  Matrix eigenvalues; // diagonal
};
std::vector<Hard> hard(int64_t rows, int64_t columns) {
  const auto of = [&](const std::function<double(int64_t)>& value) { return diagonal(rows, columns, value); };
  return {{"equal", of([](int64_t) { return 1.0; })},
          {"zero", of([](int64_t) { return 0.0; })},
          {"repeated", of([](int64_t i) { return static_cast<double>(i % 3) - 1; })},
          {"clustered", of([](int64_t i) { return 1 + 1e-13 * static_cast<double>(i); })},
          {"two clusters", of([](int64_t i) { return (i % 2 ? 1 : -1) + 1e-9 * static_cast<double>(i); })},
          {"graded", of([](int64_t i) { return std::pow(0.25, static_cast<double>(i)); })},
          {"one is not 0", of([](int64_t i) { return i == 2 ? -3.0 : 0.0; })}};
}

} // namespace

TEST_CASE("eigh and eigvalsh") {
  for (const DType dtype : kDTypes)
    for (const int64_t n : kChosen.sizes) {
      CAPTURE(n);
      const Matrix a = matrix(n, n, static_cast<uint32_t>(n));
      check_eigh(tensor(a + a.transpose(), dtype));
    }
}

TEST_CASE("eigh of matrices with close, equal, tiny and huge eigenvalues") {
  const Matrix q = orthogonal(kChosen.hard, 1);
  for (const DType dtype : kChosen.hard_dtypes)
    for (const auto& [name, values] : hard(kChosen.hard, kChosen.hard)) {
      CAPTURE(name);
      if (kChosen.also_diagonal) check_eigh(tensor(values, dtype));
      const Matrix turned = q * values * q.transpose();
      check_eigh(tensor((turned + turned.transpose()) / 2, dtype));
    }
  const Matrix a = q + q.transpose();
  check_eigh(tensor(a * 1e300));
  check_eigh(tensor(a * 1e-300));
  check_eigh(tensor(Matrix::Ones(kChosen.hard, kChosen.hard)));
  // Wilkinson's matrix has pairs of eigenvalues that agree in all digits, and is tridiagonal.
  Matrix wilkinson = diagonal(kChosen.hard, kChosen.hard,
                              [](int64_t i) { return std::fabs(static_cast<double>(i - kChosen.hard / 2)); });
  for (int64_t i = 1; i < kChosen.hard; ++i) wilkinson(i, i - 1) = wilkinson(i - 1, i) = 1;
  check_eigh(tensor(wilkinson));
}

TEST_CASE("eigenvalues of diagonal matrices are exact") {
  const Matrix d =
      diagonal(kChosen.hard, kChosen.hard, [](int64_t i) { return static_cast<double>(i * 7 % 11) - 3; });
  Matrix want = d.diagonal();
  std::sort(want.data(), want.data() + want.size());
  CHECK((vector(eigvalsh(tensor(d))) - want).isZero(0));
}

TEST_CASE("eigh reads the lower triangle, and gives NaN of what is not finite") {
  Matrix a = matrix(5, 5, 1), noisy = a;
  noisy.triangularView<Eigen::StrictlyUpper>().setConstant(kNan);
  CHECK((vector(eigvalsh(tensor(noisy))) - vector(eigvalsh(tensor(a)))).isZero(0));
  a(3, 1) = kInf;
  CHECK(vector(eigvalsh(tensor(a))).array().isNaN().all());
  CHECK(vector(svdvals(tensor(a))).array().isNaN().all());
  CHECK(values(svd(tensor(a)).u).array().isNaN().all());
}

TEST_CASE("svd and svdvals") {
  for (const DType dtype : kDTypes)
    for (const auto [m, n] : kChosen.rectangles) {
      CAPTURE(m);
      CAPTURE(n);
      check_svd(tensor(matrix(m, n, static_cast<uint32_t>(m * 7 + n)), dtype));
    }
}

TEST_CASE("svd of matrices with close, equal, tiny and huge singular values") {
  const int64_t rows = kChosen.hard, columns = kChosen.hard - 10;
  const Matrix left = orthogonal(rows, 2), right = orthogonal(columns, 3);
  for (const DType dtype : kChosen.hard_dtypes)
    for (const auto& [name, values] : hard(rows, columns)) {
      CAPTURE(name);
      if (kChosen.also_diagonal) check_svd(tensor(values, dtype));
      check_svd(tensor(left * values * right.transpose(), dtype));
    }
  const Matrix a = matrix(rows, columns, 4);
  check_svd(tensor(a * 1e300));
  check_svd(tensor(a * 1e-300));
  check_svd(tensor(matrix(rows, 3, 5) * matrix(3, columns, 6)));
  // One nilpotent block: all eigenvalues are 0, all singular values but one are 1.
  Matrix nilpotent = Matrix::Zero(rows, columns);
  for (int64_t i = 1; i < columns; ++i) nilpotent(i - 1, i) = 1;
  check_svd(tensor(nilpotent));
}

TEST_CASE("pinv, matrix_rank, cond and matrix_norm") {
  const Matrix a = matrix(7, 2, 1) * matrix(2, 4, 2);
  const Tensor x = tensor(a);
  const Matrix p = values(pinv(x));
  check_zero(a * p * a - a, 10, DType::F64);
  check_zero(p * a * p - p, 10, DType::F64);
  check_zero(a * p - (a * p).transpose(), 10, DType::F64);
  check_zero(p * a - (p * a).transpose(), 10, DType::F64);
  CHECK(matrix_rank(x).item<int64_t>() == 2);
  CHECK(matrix_rank(x).dtype() == DType::I64);
  CHECK(matrix_rank(x, 0.999).item<int64_t>() == 1);
  const Tensor uneven = tensor(diagonal(2, 3, [](int64_t i) { return i == 0 ? 4.0 : 1.0; }));
  check_zero(values(pinv(uneven, 0.5)) - diagonal(3, 2, [](int64_t i) { return i == 0 ? 0.25 : 0; }), 1,
             DType::F64);

  const Matrix d = orthogonal(3, 1) * diagonal(3, 3, [](int64_t i) { return std::pow(10.0, i); });
  CHECK(std::fabs(cond(tensor(d)).item<double>() / 100 - 1) < 1e-13);
  CHECK(cond(tensor(Matrix::Zero(2, 2))).item<double>() == double(kInf));

  const auto norm = [&](MatrixNorm which) { return matrix_norm(x, which).item<double>(); };
  const Matrix s = Eigen::JacobiSVD<Eigen::MatrixXd>(a).singularValues();
  CHECK(std::fabs(matrix_norm(x).item<double>() / a.norm() - 1) < 1e-14);
  CHECK(std::fabs(norm(MatrixNorm::Spectral) / s(0, 0) - 1) < 1e-14);
  CHECK(std::fabs(norm(MatrixNorm::Nuclear) / s.sum() - 1) < 1e-14);
  CHECK(std::fabs(norm(MatrixNorm::Columns) / a.cwiseAbs().colwise().sum().maxCoeff() - 1) < 1e-15);
  CHECK(std::fabs(norm(MatrixNorm::Rows) / a.cwiseAbs().rowwise().sum().maxCoeff() - 1) < 1e-15);
  CHECK(std::fabs(matrix_norm(tensor(a * 1e200)).item<double>() / (a.norm() * 1e200) - 1) < 1e-14);
  for (const Shape& empty : {Shape{0, 0}, Shape{0, 3}, Shape{3, 0}}) {
    CHECK(pinv(Tensor::zeros(empty)).shape() == Shape{empty[1], empty[0]});
    CHECK(matrix_rank(Tensor::zeros(empty)).item<int64_t>() == 0);
    for (const MatrixNorm n : {MatrixNorm::Frobenius, MatrixNorm::Spectral, MatrixNorm::Nuclear,
                               MatrixNorm::Columns, MatrixNorm::Rows})
      CHECK(matrix_norm(Tensor::zeros(empty), n).item<float>() == 0);
  }
}

TEST_CASE("batches and other dtypes of eigenvalues and singular values") {
  const Tensor a = random<double>({2, 3, 4, 4}, 1), b = a + a.transpose();
  const EigenPairs e = eigh(b);
  const SVD d = svd(a);
  REQUIRE(e.vectors.shape() == Shape{2, 3, 4, 4});
  REQUIRE(d.s.shape() == Shape{2, 3, 4});
  for (int i = 0; i < 2; ++i)
    for (int j = 0; j < 3; ++j) {
      const Matrix v = values(e.vectors(i, j)), w = vector(e.values(i, j)), s = vector(d.s(i, j));
      check_zero(values(b(i, j)) * v - v * w.col(0).asDiagonal(), 8, DType::F64);
      check_zero(values(d.u(i, j)) * s.col(0).asDiagonal() * values(d.vt(i, j)) - values(a(i, j)), 8,
                 DType::F64);
    }
  CHECK(eigvalsh(Tensor::zeros({0, 4, 4})).shape() == Shape{0, 4});
  CHECK(eigh(Tensor::zeros({0, 4, 4})).vectors.to_vector<float>().empty());
  CHECK(svd(Tensor::zeros({0, 4, 2})).u.to_vector<float>().empty());
  const Var n("n", 1, 9);
  CHECK(svdvals(Tensor::input("x", {n, 4, 2})).shape() == Shape{n, 2});
  const Tensor whole = Tensor::from(std::vector<int32_t>{2, 1, 1, 2}, {2, 2});
  CHECK(eigvalsh(whole).dtype() == DType::F64);
  check_close(as_doubles(eigvalsh(whole)), std::vector<double>{1, 3}, 1e-15);
  CHECK(svdvals(whole.cast(DType::I8)).dtype() == DType::F32);
  CHECK(svdvals(whole.cast(DType::F16)).dtype() == DType::F16);
  check_close(as_doubles(svdvals(whole.cast(DType::F16))), std::vector<double>{3, 1}, 1e-3);
}

TEST_CASE("bad calls of eigenvalues and singular values") {
  const Tensor a = Tensor::zeros({3, 4}), v = Tensor::zeros({3}), square = Tensor::zeros({2, 2});
  const Var n("n", 1, 9);
  check_error(ErrorKind::Shape, "eigh", [&] { (void)eigh(a); });
  check_error(ErrorKind::Shape, "eigvalsh", [&] { (void)eigvalsh(v); });
  check_error(ErrorKind::Shape, "svd", [&] { (void)svd(v); });
  check_error(ErrorKind::Shape, "svdvals", [&] { (void)svdvals(Tensor::input("x", {n, n})); });
  check_error(ErrorKind::Limit, "eigh", [&] { (void)eigh(Tensor::zeros({1 << 16, 1 << 16})); });
  check_error(ErrorKind::Shape, "pinv", [&] { (void)pinv(v); });
  check_error(ErrorKind::Value, "pinv", [&] { (void)pinv(square, -1.0); });
  check_error(ErrorKind::Value, "matrix_rank", [&] { (void)matrix_rank(square, -1.0); });
  check_error(ErrorKind::Shape, "cond", [&] { (void)cond(Tensor::zeros({0, 2})); });
  check_error(ErrorKind::Shape, "matrix_norm", [&] { (void)matrix_norm(v); });
}
