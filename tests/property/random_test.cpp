// Random numbers of one seed: rand, randn and randint follow neither from each other nor from another seed's, and their
// values are spread as they say.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "support/tensor_values.hpp"

using namespace lathe;
using namespace lathe::test;

namespace {

constexpr int64_t kCount = 20000;
/// Of independent numbers the correlation's deviation is 1 / sqrt(n); six of them.
const double kBound = 6 / std::sqrt(static_cast<double>(kCount));

double correlation(const std::vector<double>& a, const std::vector<double>& b, size_t shift = 0) {
  const size_t n = a.size() - shift;
  double ma = 0, mb = 0, ab = 0, aa = 0, bb = 0;
  for (size_t i = 0; i < n; ++i) ma += a[i] / static_cast<double>(n), mb += b[i + shift] / static_cast<double>(n);
  for (size_t i = 0; i < n; ++i) {
    const double x = a[i] - ma, y = b[i + shift] - mb;
    ab += x * y, aa += x * x, bb += y * y;
  }
  return ab / std::sqrt(aa * bb);
}

std::vector<double> squares(std::vector<double> v) {
  for (double& x : v) x *= x;
  return v;
}

} // namespace

TEST_CASE("generators of one seed, and of neighbouring seeds, are not correlated") {
  struct Stream {
    std::string name;
    std::vector<double> values;
  };
  std::vector<Stream> all;
  for (uint64_t seed : {0, 1, 42}) {
    const std::string of = " of seed " + std::to_string(seed);
    all.push_back({"rand" + of, as_doubles(Tensor::rand({kCount}, seed))});
    all.push_back({"randn" + of, as_doubles(Tensor::randn({kCount}, seed))});
    all.push_back({"randint" + of, as_doubles(Tensor::randint(0, 1 << 20, {kCount}, seed))});
  }
  for (size_t i = 0; i < all.size(); ++i)
    for (size_t j = i; j < all.size(); ++j)
      for (size_t shift : {0, 1, 2, 16}) {
        if (i == j && shift == 0) continue;
        CAPTURE(all[i].name);
        CAPTURE(all[j].name);
        CAPTURE(shift);
        CHECK(std::fabs(correlation(all[i].values, all[j].values, shift)) < kBound);
        CHECK(std::fabs(correlation(squares(all[i].values), squares(all[j].values), shift)) < kBound);
      }
}

TEST_CASE("randint reaches all values of a range equally often, and the ends of large ones") {
  constexpr int kValues = 7;
  std::vector<double> count(kValues);
  for (double v : as_doubles(Tensor::randint(-3, 4, {kCount}, 5))) ++count.at(static_cast<size_t>(v + 3));
  double chi = 0;
  for (double c : count) chi += std::pow(c - kCount / 7.0, 2) / (kCount / 7.0);
  CHECK(chi < 35); // 6 degrees of freedom: beyond it once in 200,000
  // Of 3 * 2^30 values, 32 bits would give a third of them twice the chance of the others.
  int low = 0, thirds[3] = {0, 0, 0};
  const auto wide = Tensor::randint(0, int64_t{3} << 30, {kCount}, 6).to_vector<int64_t>();
  for (int64_t v : wide) ++thirds[v % 3], low += v < (int64_t{1} << 30);
  for (int t : thirds) CHECK(std::fabs(t - kCount / 3.0) < 6 * std::sqrt(kCount * 2.0 / 9));
  CHECK(std::fabs(low - kCount / 3.0) < 6 * std::sqrt(kCount * 2.0 / 9));
  const auto whole = Tensor::randint(0, int64_t{1} << 32, {kCount}, 7).to_vector<int64_t>();
  CHECK(*std::min_element(whole.begin(), whole.end()) >= 0);
  CHECK(*std::max_element(whole.begin(), whole.end()) > (int64_t{1} << 32) - (1 << 21));
}
