// Numbers to feed models with, and what comes out against what a plain loop in doubles gives.
#pragma once
#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <vector>

#include "support/onnx_node.hpp"

namespace lathe::test {

/// Numbers without a pattern, between -1 and 1.
inline std::vector<float> numbers(int64_t count, unsigned seed) {
  std::vector<float> values;
  uint32_t state = seed * 2654435761u + 1;
  for (int64_t k = 0; k < count; ++k) {
    state = state * 1664525u + 1013904223u;
    values.push_back(static_cast<float>(static_cast<double>(state >> 8) / (1 << 23) - 1.0));
  }
  return values;
}

/// 0, 1, 2 ... in this shape.
inline Tensor counting(const Shape& shape) {
  return Tensor::arange(num_elements(shape).value()).cast(DType::F32).reshape(shape);
}

/// Infinities and NaN have to be equal; others may be off by tolerance * (1 + |expected|).
template <class T = double>
void check_close(const onnx::Value& got, const std::vector<T>& expected, double tolerance = 1e-5) {
  const std::vector<float> values = floats(got);
  REQUIRE(values.size() == expected.size());
  for (size_t k = 0; k < values.size(); ++k) {
    CAPTURE(k);
    if (std::isnan(expected[k]))
      CHECK(std::isnan(values[k]));
    else if (std::isinf(expected[k]))
      CHECK(values[k] == expected[k]);
    else
      CHECK(std::abs(values[k] - expected[k]) <= tolerance * (1 + std::abs(expected[k])));
  }
}

} // namespace lathe::test
