// The error function.
//
// Below 1: its Maclaurin series, 2/sqrt(pi) * sum (-1)^n x^(2n+1) / (n! (2n+1)), good to the dtype's
// rounding. From 1: 1 - e^(-x^2) p(u), where p interpolates e^(x^2) erfc(x) at the Chebyshev nodes of u = 3 /
// (1 + x/2) - 1, which runs from 1 down to -1 as x grows to infinity. Weighed by e^(-x^2), the error of
// degree 8 is 1.6e-9, that of degree 20 5e-18.
#include <cmath>
#include <numbers>

#include "graph/tensor_impl.hpp"

namespace lathe {
using namespace graph;
namespace {

constexpr double kDegree8[] = {
    0.13699945487014415,     0.19430105324670698,    0.07445469967058621,
    0.01992494163647085,     0.002535432051841821,   -0.00044424941751264276,
    -0.00021235514876835960, 1.0044269693131606e-05, 1.4559245458160150e-05,
};
constexpr double kDegree20[] = {
    0.136999457625061395,     0.194301036570129144,     0.0744545602489905181,    0.0199251715090179002,
    0.0025365679740445296,    -0.0004451252596952953,   -0.000215634573655657165, 1.13546459103115168e-05,
    1.85434875607284773e-05,  -8.06544528661325111e-07, -1.89893806750782733e-06, 1.98659257847997016e-07,
    2.12748141691104223e-07,  -5.0730490873611421e-08,  -2.19049088160550169e-08, 1.08338051120907823e-08,
    1.32718658724862968e-09,  -1.76979859245598283e-09, 1.14028433443335042e-10,  1.64296628963992473e-10,
    -3.04784046865458604e-11,
};

Tensor horner(const Tensor& x, std::span<const double> coefficients) { // lowest power first
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
  // x + x * (series - 1): what is rounded more than once stays small beside x.
  series[0] -= 1;
  const Tensor small = x + x * horner(x * x, series);
  const Tensor a = x.abs(), one = number(1, d);
  const Tensor u = (one + a * number(0.5, d)).reciprocal() * number(3, d) - one;
  const Tensor tail = d == DType::F64 ? horner(u, kDegree20) : horner(u, kDegree8);
  const Tensor large = one - tail * (-(a * a)).exp();
  return where(a < one, small, where(x < number(0, d), -large, large));
}

} // namespace

Tensor Tensor::erf() const { return in_wide(*this, erf_wide); }

} // namespace lathe
