// The error function.
//
// f64, below 1: the Maclaurin series, 2/sqrt(pi) * sum (-1)^n x^(2n+1) / (n! (2n+1)).
// f64, from 1: 1 - e^(-x^2) p(u), where u = 3 / (1 + x/2) - 1. p interpolates e^(x^2) erfc(x) at the
// Chebyshev nodes of u. u is 1 at x = 1 and falls to -1 as x grows to infinity. Weighed by e^(-x^2), the
// error of degree 20 is 5e-18.
// f32, below 0.95: x + x p(x^2).
// f32, from 0.95: 1 - e^(x q(x)), where e^(x q(x)) is erfc(x). p and q are minimax in the relative error of
// the result.
#include <cmath>
#include <numbers>

#include "core/coefficients.hpp"
#include "graph/function.hpp"
#include "graph/tensor_impl.hpp"

namespace lathe {
using namespace graph;
namespace {

Tensor erf_f64(const Tensor& x) {
  std::vector<double> series;
  double factorial = 1;
  for (int n = 0; n < 18; ++n) {
    if (n > 0) factorial *= -n;
    series.push_back(2 * std::numbers::inv_sqrtpi / (factorial * (2 * n + 1)));
  }
  // x + x * (series - 1): the terms that are rounded more than once stay small beside x.
  series[0] -= 1;
  const DType d = x.dtype();
  const Tensor small = x + x * horner(x * x, series);
  const Tensor a = x.abs(), one = number(1, d);
  const Tensor u = number(3, d) / (one + a * number(0.5, d)) - one;
  const Tensor large = one - horner(u, coefficients::kErfc64) * (-(a * a)).exp();
  return where(a < one, small, where(x < number(0, d), -large, large));
}

Tensor erf_f32(const Tensor& x) {
  const DType d = x.dtype();
  const Tensor most = number(3.95, d), least = number(-3.95, d); // beyond these erf is 1 or -1
  const Tensor not_above = where(most < x, most, x), c = where(not_above < least, least, not_above);
  const Tensor a = c.abs(), small = c + c * horner(c * c, coefficients::kErfSmall);
  const Tensor large = number(1, d) - (a * horner(a, coefficients::kErfExponent)).exp();
  return where(a < number(0.95, d), small, where(c < number(0, d), -large, large));
}

} // namespace

Tensor Tensor::erf() const {
  return marked("erf", *this,
                [](const Tensor& x) { return x.dtype() == DType::F64 ? erf_f64(x) : erf_f32(x); });
}

} // namespace lathe
