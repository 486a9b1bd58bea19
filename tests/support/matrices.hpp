// Matrices of Eigen beside tensors, for the tests of linear algebra.
#pragma once
#include <Eigen/Dense>

#include "support/tensor_values.hpp"

namespace lathe::test {

using Matrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

inline Matrix matrix(int64_t rows, int64_t columns, uint32_t seed) {
  const std::vector<double> values = noise<double>(static_cast<size_t>(rows * columns), seed);
  return Eigen::Map<const Matrix>(values.data(), rows, columns);
}

inline Tensor tensor(const Matrix& m, DType dtype = DType::F64) {
  return Tensor::from(std::vector<double>(m.data(), m.data() + m.size()), {m.rows(), m.cols()}).cast(dtype);
}
inline Matrix values(const Tensor& t) {
  const std::vector<double> v = as_doubles(t);
  return Eigen::Map<const Matrix>(v.data(), t.size(-2).value(), t.size(-1).value());
}

inline double digit(DType dtype) {
  return dtype == DType::F64 ? 0x1p-52 : dtype == DType::F32 ? 0x1p-23 : 0x1p-10;
}

/// The matrices are equal within a few digits of `scale` for each row.
inline void check_zero(const Matrix& difference, double scale, DType dtype) {
  if (difference.size() == 0) return;
  const double allowed = 2 * digit(dtype) * static_cast<double>(difference.rows() + 4) * scale;
  CHECK_MESSAGE(difference.cwiseAbs().maxCoeff() <= allowed, difference.cwiseAbs().maxCoeff(), " allowed ",
                allowed);
}
inline double size_of(const Matrix& m) { return m.size() == 0 ? 1 : m.cwiseAbs().rowwise().sum().maxCoeff(); }

inline constexpr DType kDTypes[] = {DType::F64, DType::F32};

} // namespace lathe::test
