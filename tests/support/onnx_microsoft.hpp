// Nodes of domain com.microsoft, and numbers to feed them.
#pragma once
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "support/onnx_node.hpp"

namespace lathe::test {

/// The outputs of a node of com.microsoft.
inline std::vector<onnx::Value> run_microsoft(const std::string& op, const std::vector<onnx::Value>& inputs,
                                              const Attributes& attributes = {}, size_t outputs = 1,
                                              const char* batch = nullptr) {
  return run_node(op, inputs, attributes, outputs, 17, batch, "com.microsoft");
}
inline onnx::Value microsoft(const std::string& op, const std::vector<onnx::Value>& inputs,
                             const Attributes& attributes = {}, const char* batch = nullptr) {
  return run_microsoft(op, inputs, attributes, 1, batch)[0];
}

/// `count` whole numbers in [low, high], which hardly repeat.
inline std::vector<int64_t> scattered(int64_t count, int64_t low, int64_t high, uint64_t seed = 1) {
  std::vector<int64_t> values;
  for (uint64_t state = seed * 977 + 13; count > 0; --count) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    values.push_back(low + static_cast<int64_t>((state >> 33) % static_cast<uint64_t>(high - low + 1)));
  }
  return values;
}
/// The same as quarters: floats whose sums of products are exact.
inline std::vector<float> quarters(int64_t count, uint64_t seed = 1) {
  std::vector<float> values;
  for (int64_t value : scattered(count, -8, 8, seed)) values.push_back(static_cast<float>(value) / 4);
  return values;
}
template <class T> Tensor tensor_of(const std::vector<int64_t>& values, const Shape& shape) {
  return Tensor::from(std::vector<T>(values.begin(), values.end()), shape);
}

/// A whole number kept in 8 bits; rounds half to even.
inline int64_t saturated(double value, int64_t low, int64_t high) {
  return static_cast<int64_t>(std::clamp(std::nearbyint(value), double(low), double(high)));
}

using Floats = std::vector<float>;
using Doubles = std::vector<double>;

inline void check_close(const onnx::Value& got, const Doubles& expected, double tolerance = 1e-5) {
  const Floats y = floats(got);
  REQUIRE(y.size() == expected.size());
  for (size_t k = 0; k < y.size(); ++k) {
    CAPTURE(k);
    CHECK(std::abs(y[k] - expected[k]) <= tolerance * (1 + std::abs(expected[k])));
  }
}

/// Whether the node ends with an error that names `what`.
inline bool refuses(const std::string& op, const std::vector<onnx::Value>& inputs,
                    const Attributes& attributes, size_t outputs, const std::string& what) {
  try {
    run_microsoft(op, inputs, attributes, outputs);
  } catch (const Error& error) {
    return std::string(error.what()).find(what) != std::string::npos;
  }
  return false;
}

} // namespace lathe::test
