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

#include "graph/function.hpp"
#include "graph/tensor_impl.hpp"

namespace lathe {
using namespace graph;
namespace {

constexpr double kSmall[] = {0x1.06eba8p-3, -0x1.81273ep-2,  0x1.ce2dp-4,   -0x1.b7f97ep-6,
                             0x1.540896p-8, -0x1.a4094ep-11, 0x1.4996d8p-14};
constexpr double kExponent[] = {-0x1.20ee5cp+0, -0x1.4538acp-1, -0x1.b2d3ep-4,  0x1.843668p-6,
                                -0x1.d937ccp-9, 0x1.4a28ecp-12, -0x1.5e1a56p-17};
constexpr double kDegree20[] = {
    0.136999457625061395,     0.194301036570129144,     0.0744545602489905181,    0.0199251715090179002,
    0.0025365679740445296,    -0.0004451252596952953,   -0.000215634573655657165, 1.13546459103115168e-05,
    1.85434875607284773e-05,  -8.06544528661325111e-07, -1.89893806750782733e-06, 1.98659257847997016e-07,
    2.12748141691104223e-07,  -5.0730490873611421e-08,  -2.19049088160550169e-08, 1.08338051120907823e-08,
    1.32718658724862968e-09,  -1.76979859245598283e-09, 1.14028433443335042e-10,  1.64296628963992473e-10,
    -3.04784046865458604e-11,
};

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
  const Tensor large = one - horner(u, kDegree20) * (-(a * a)).exp();
  return where(a < one, small, where(x < number(0, d), -large, large));
}

Tensor erf_f32(const Tensor& x) {
  const DType d = x.dtype();
  const Tensor most = number(3.95, d), least = number(-3.95, d); // beyond these erf is 1 or -1
  const Tensor not_above = where(most < x, most, x), c = where(not_above < least, least, not_above);
  const Tensor a = c.abs(), small = c + c * horner(c * c, kSmall);
  const Tensor large = number(1, d) - (a * horner(a, kExponent)).exp();
  return where(a < number(0.95, d), small, where(c < number(0, d), -large, large));
}

} // namespace

Tensor Tensor::erf() const {
  return marked("erf", *this,
                [](const Tensor& x) { return x.dtype() == DType::F64 ? erf_f64(x) : erf_f32(x); });
}

} // namespace lathe
