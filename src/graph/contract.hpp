// The one form in which every product with a sum is built, so that lowering and search see one pattern.
#pragma once
#include "lathe/tensor.hpp"

namespace lathe::graph {

/// Sum over `axes` of a * b, both broadcast to `full`; the axes stay as size 1. Of bools: any of both. Half
/// precision accumulates in f32. Casts come before the broadcast: once an element, not once a product.
Tensor contract(const Tensor& a, const Tensor& b, const Shape& full, const std::vector<int>& axes);

} // namespace lathe::graph
