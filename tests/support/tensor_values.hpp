// Values of tensors, for comparing composed functions with plain computations. What computes them is linked:
// values_by_evaluator.cpp or values_by_device.cpp.
#pragma once
#include <doctest/doctest.h>

#include <cmath>
#include <cstdlib>
#include <limits>
#include <string_view>
#include <vector>

#include "lathe/lathe.hpp"

namespace lathe::test {

/// Whether values are of compiled programs. Then a new size takes up to seconds: tests take fewer.
extern const bool kCompiled;
/// The interpreter takes minutes where compiled programs take seconds.
inline bool on_interpreter() {
  return kCompiled && std::string_view(std::getenv("LATHE_TEST_DEVICE")) == "interp";
}

inline constexpr float kInf = std::numeric_limits<float>::infinity();
inline const float kNan = std::nanf("");

/// Repeatable numbers in [-2, 2), integers in [-100, 100) or [0, 200).
template <class T = float> std::vector<T> noise(size_t count, uint32_t seed) {
  std::vector<T> out(count);
  uint64_t state = seed * 2654435761u + 12345;
  for (T& v : out) {
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    const double unit = static_cast<double>(state >> 40) / (1 << 24);
    v = std::is_floating_point_v<T>
            ? static_cast<T>(unit * 4 - 2)
            : static_cast<T>(static_cast<int64_t>(unit * 200) - (std::is_signed_v<T> ? 100 : 0));
  }
  return out;
}

template <class T = float> Tensor random(const Shape& shape, uint32_t seed) {
  return Tensor::from(noise<T>(static_cast<size_t>(num_elements(shape).value()), seed), shape);
}

inline bool same(double a, double b, double tolerance) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
  if (a == b) return true;
  return std::fabs(a - b) <= tolerance * std::max(1.0, std::fabs(b));
}

template <class T, class U>
void check_close(const std::vector<T>& got, const std::vector<U>& want, double tolerance = 1e-6) {
  REQUIRE(got.size() == want.size());
  for (size_t i = 0; i < got.size(); ++i)
    CHECK_MESSAGE(same(static_cast<double>(got[i]), static_cast<double>(want[i]), tolerance), i, ": ", got[i],
                  " for ", want[i]);
}

inline std::vector<double> as_doubles(const Tensor& t) { return t.cast(DType::F64).to_vector<double>(); }

} // namespace lathe::test
