// Texts and whole numbers as values of nodes.
#pragma once
#include "support/onnx_builder.hpp"

namespace lathe::test {

inline onnx::Value words(const Names& texts, const Shape& shape) {
  return onnx::Value::strings(texts, shape);
}
inline onnx::Value words(const Names& texts) { return onnx::Value::strings(texts); }
inline Tensor integers_of(const std::vector<int64_t>& values) { return Tensor::from(values); }

} // namespace lathe::test
