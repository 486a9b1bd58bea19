#include "reference.hpp"

#include <cmath>

#include "compile/measure/tolerance.hpp"

namespace lathe::bench {

Matrix matrix(const HostTensor& tensor, int64_t rows, int64_t columns, int64_t offset) {
  Matrix m(rows, columns);
  for (int64_t i = 0; i < rows * columns; ++i) m.data()[i] = tensor.get(offset + i);
  return m;
}

void append(std::vector<double>& out, const Matrix& m) {
  out.insert(out.end(), m.data(), m.data() + m.size());
}

std::vector<double> flat(const Matrix& m) { return {m.data(), m.data() + m.size()}; }

Matrix softmax_rows(const Matrix& x) {
  Matrix e = (x.colwise() - x.rowwise().maxCoeff()).array().exp();
  return e.array().colwise() / e.rowwise().sum().array();
}

Matrix layer_norm_rows(const Matrix& x, const Matrix& weight, const Matrix& bias) {
  Matrix centred = x.colwise() - x.rowwise().mean();
  Eigen::VectorXd scale = (centred.array().square().rowwise().mean() + 1e-5).rsqrt();
  Matrix y = centred.array().colwise() * scale.array();
  y.array().rowwise() *= weight.row(0).array();
  y.rowwise() += bias.row(0);
  return y;
}

Matrix gelu(const Matrix& x) {
  return x.unaryExpr([](double v) { return 0.5 * v * (1 + std::erf(v * std::sqrt(0.5))); });
}

Matrix attention(const Matrix& q, const Matrix& k, const Matrix& v) {
  return softmax_rows(q * k.transpose() / std::sqrt(static_cast<double>(q.cols()))) * v;
}

double epsilon(DType dtype) { return is_float(dtype) ? 2 * pipeline::unit_roundoff(dtype) : 0; }

double sum_tolerance(DType dtype, int64_t terms) {
  if (!is_float(dtype)) return 0;
  // The sizes of a sum's terms, as a multiple of a typical result's; and what f16 and bf16 round on the way,
  // whose sums are kept in f32.
  constexpr double kSize = 16, kStored = 16;
  const DType kept = is_half(dtype) ? DType::F32 : dtype;
  return pipeline::sum_error(kept, static_cast<double>(terms), kSize) +
         (is_half(dtype) ? kStored * epsilon(dtype) : 0);
}

} // namespace lathe::bench
