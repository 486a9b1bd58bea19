// The one form in which every product with a sum is built, so that lowering and search see one pattern.
#pragma once
#include "lathe/tensor.hpp"

namespace lathe::graph {

/// The sum over `axes` of a * b, both broadcast to `full`; the axes stay as size 1. For bools: whether a and
/// b are both true anywhere along the axes. Half precision accumulates in f32. Casts come before the
/// broadcast: once per element, not once per product.
Tensor contract(const Tensor& a, const Tensor& b, const Shape& full, const std::vector<int>& axes);

} // namespace lathe::graph
