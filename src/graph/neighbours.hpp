// Elements of an axis at known positions, read as views.
#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "lathe/tensor.hpp"

namespace lathe::graph {

/// What x has along the axis at these positions, where they are those of resizing the axis by a fraction:
/// result b * j + p reads element a * j + offset[p], for each j, and the element at the edge where that is
/// outside; b is a power of two. Nothing for other positions, or for many different offsets. Vectors read
/// such results; at an index each is read alone.
std::optional<Tensor> take_neighbours(const Tensor& x, int axis, const std::vector<int64_t>& positions);

} // namespace lathe::graph
