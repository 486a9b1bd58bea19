// The error function.
//
// Below 1: its Maclaurin series, 2/sqrt(pi) * sum (-1)^n x^(2n+1) / (n! (2n+1)), good to the dtype's
// rounding. From 1: 1 - (a1 t + ... + a5 t^5) e^(-x^2) with t = 1 / (1 + p x): Abramowitz and Stegun,
// Handbook of Mathematical Functions, 7.1.26, absolute error 1.5e-7, in f64 too.
#include <cmath>
#include <numbers>

#include "graph/tensor_impl.hpp"

namespace lathe {
using namespace graph;
namespace {

Tensor horner(const Tensor& x, const std::vector<double>& coefficients) { // lowest power first
  Tensor sum = number(coefficients.back(), x.dtype());
  for (size_t i = coefficients.size() - 1; i-- > 0;) sum = sum * x + number(coefficients[i], x.dtype());
  return sum;
}

Tensor erf_wide(const Tensor& x) {
  const DType d = x.dtype();
  std::vector<double> series;
  double factorial = 1;
  for (int n = 0; n < (d == DType::F64 ? 18 : 11); ++n) {
    if (n > 0) factorial *= -n;
    series.push_back(2 * std::numbers::inv_sqrtpi / (factorial * (2 * n + 1)));
  }
  const Tensor small = x * horner(x * x, series);
  const Tensor a = x.abs(), one = number(1, d);
  const Tensor t = (one + a * number(0.3275911, d)).reciprocal();
  const Tensor tail = t * horner(t, {0.254829592, -0.284496736, 1.421413741, -1.453152027, 1.061405429});
  const Tensor large = one - tail * (-(a * a)).exp();
  return where(a < one, small, where(x < number(0, d), -large, large));
}

} // namespace

Tensor Tensor::erf() const { return in_wide(*this, erf_wide); }

} // namespace lathe
