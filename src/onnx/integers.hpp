// Arithmetic with sizes while a model is imported.
#pragma once
#include "onnx/graph.hpp"

namespace lathe::onnx {

/// An integer or bool tensor whose elements are known, though perhaps only as expressions.
struct Integers {
  DType dtype;
  std::vector<int64_t> shape;
  std::vector<Expr> elements; // row-major
};
/// The output of a node that computes sizes from known integers, as models do between Shape and Reshape;
/// nothing for other nodes.
std::optional<Integers> fold_integers(const NodeDef& node, const std::vector<Value>& inputs);
/// The only element of a constant in f32 that is a whole number, exact; nothing for other values.
std::optional<int64_t> whole_number(const Value& value);
/// Nothing unless all elements are numbers.
std::optional<Value> constant_of(const Integers& integers);

} // namespace lathe::onnx
