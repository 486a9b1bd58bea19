// Derivatives of pow, of the remainder, of atan2 and of hypot, where a factor is 0 or infinite and where there is nothing special.
#include <doctest/doctest.h>

#include "lathe/gradient.hpp"
#include "support/tensor_values.hpp"

using namespace lathe;
using namespace lathe::test;

namespace {

using Numbers = std::vector<double>;

struct Derivatives {
  Numbers by_a, by_b;
};

template <class F> Derivatives derivatives(const Numbers& a, const Numbers& b, F&& f) {
  const Tensor x = Tensor::from(a), y = Tensor::from(b);
  const std::vector<Tensor> g = gradients(f(x, y).sum(), {x, y});
  return {g[0].to_vector<double>(), g[1].to_vector<double>()};
}

/// Beside tiny and huge numbers, too.
void check_relative(const Numbers& got, const Numbers& want) {
  REQUIRE(got.size() == want.size());
  for (size_t i = 0; i < got.size(); ++i)
    CHECK_MESSAGE(std::fabs(got[i] - want[i]) <= 1e-14 * std::fabs(want[i]), i, ": ", got[i], " for ", want[i]);
}

} // namespace

TEST_CASE("derivatives of pow, at base 0 and at infinity, as PyTorch's") {
  const Numbers a{0, 0, 0, 0, 0, 2, 3, -2, 0, kInf, -0.0, 1};
  const Numbers b{2, 1, 0, 0.5, 3, 3, 0, 2, -1, -1, 2, 5};
  const Derivatives got = derivatives(a, b, [](const Tensor& x, const Tensor& y) { return pow(x, y); });
  check_close(got.by_a, Numbers{0, 1, 0, kInf, 0, 12, 0, -4, -kInf, 0, 0, 5}, 1e-14);
  const double log2 = std::log(2.0), log3 = std::log(3.0);
  check_close(got.by_b, Numbers{0, 0, 0, 0, 0, 8 * log2, log3, kNan, -kInf, 0, 0, 0}, 1e-14);
}

TEST_CASE("second derivatives of pow by constant exponents") {
  for (double n : {0.0, 1.0, 2.0, 3.0, 4.0, 17.0, -1.0, -2.0, -3.0, 0.5, -0.5, 1.5, 2.5}) {
    CAPTURE(n);
    const Tensor x = Tensor::from({0.5, 1.25, 3.0});
    const Tensor first = gradients(pow(x, Tensor::scalar(n)).sum(), {x})[0];
    const Tensor second = gradients(first.sum(), {x})[0]; // before what it depends on is realised
    const Numbers in = x.to_vector<double>(), got = first.to_vector<double>();
    Numbers want, want2;
    for (double v : in) want.push_back(n * std::pow(v, n - 1)), want2.push_back(n * (n - 1) * std::pow(v, n - 2));
    check_close(got, want, 1e-14);
    check_close(second.to_vector<double>(), want2, 1e-13);
  }
  const Tensor zero = Tensor::from({0.0});
  for (double n : {2.0, 3.0, 17.0}) {
    const Tensor first = gradients(pow(zero, Tensor::scalar(n)).sum(), {zero})[0];
    const Tensor second = gradients(first.sum(), {zero})[0];
    CHECK(first.item<double>() == 0);
    CHECK(second.item<double>() == (n == 2 ? 2 : 0));
  }
}

TEST_CASE("derivatives of the remainder, at its joints too, and none of floor_divide") {
  const Numbers a{5.5, -5.5, 6, -6, 0, 7}, b{2, 2, 3, -3, 5, kInf};
  const Derivatives got = derivatives(a, b, [](const Tensor& x, const Tensor& y) { return x % y; });
  CHECK(got.by_a == Numbers{1, 1, 1, 1, 1, 1});
  CHECK(got.by_b == Numbers{-2, 3, -2, -2, 0, 0});
  const Derivatives none = derivatives(a, b, [](const Tensor& x, const Tensor& y) { return floor_divide(x, y); });
  CHECK(none.by_a == Numbers(6, 0.0));
  CHECK(none.by_b == Numbers(6, 0.0));
}

TEST_CASE("derivatives of atan2 and hypot: 0 at (0, 0), and their limits where squares or sides are infinite") {
  const Numbers a{3, -3, 0, 0, -0.0, 0, 1e200, 1e-200, kInf, 2, -kInf}, b{4, 4, 2, -2, 0, 0, -1e200, 1e-200, 5, kInf, 0};
  const Derivatives angle = derivatives(a, b, [](const Tensor& y, const Tensor& x) { return atan2(y, x); });
  check_relative(angle.by_a, {0.16, 0.16, 0.5, -0.5, 0, 0, -5e-201, 5e199, 0, 0, 0});
  check_relative(angle.by_b, {-0.12, 0.12, 0, 0, 0, 0, -5e-201, -5e199, 0, 0, 0});
  const Derivatives length = derivatives(a, b, [](const Tensor& x, const Tensor& y) { return hypot(x, y); });
  const double half = std::sqrt(0.5);
  check_relative(length.by_a, {0.6, -0.6, 0, 0, 0, 0, half, half, 1, 0, -1});
  check_relative(length.by_b, {0.8, 0.8, 1, -1, 0, 0, -half, half, 0, 1, 0});
}
