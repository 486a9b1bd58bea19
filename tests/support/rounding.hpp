// How far algorithms that round more than plain sums are off.
#pragma once
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

namespace lathe {

inline std::vector<float> uniform(int64_t count, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<float> next(-1, 1);
  std::vector<float> v(static_cast<size_t>(count));
  for (float& x : v) x = next(random);
  return v;
}

/// Largest difference over the largest result; infinite if a result is a NaN.
inline double error_of(const std::vector<float>& got, const std::vector<double>& expected) {
  double most = 0, largest = 0;
  REQUIRE(got.size() == expected.size());
  for (size_t k = 0; k < got.size(); ++k) {
    const double off = std::fabs(got[k] - expected[k]);
    most = std::max(most, std::isnan(off) ? std::numeric_limits<double>::infinity() : off);
    largest = std::max(largest, std::fabs(expected[k]));
  }
  return most / largest;
}

} // namespace lathe
