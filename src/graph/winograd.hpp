// Winograd's minimal filtering for convolutions with 3 x 3 taps and stride 1 (A. Lavin and S. Gray, "Fast
// Algorithms for Convolutional Neural Networks", arXiv:1509.09308): tiles of m x m results are made from (m +
// 2) x (m + 2) products a pair of channels, where the direct sum takes 9 m m.
//
// It is another way to compute the same sums, and rounds differently: with tiles of 4 the largest difference
// from direct f32 sums was 5.4e-6 of the largest result, over 64 channels of 56 x 56 (one trial);
// tests/unit/winograd_test.cpp compares with f64. An infinity or a NaN spoils the whole tile of results that
// reads it, not only those that a direct sum would make of it.
#pragma once
#include <optional>

#include "graph/node.hpp"

namespace lathe::graph {

/// What a convolution that Winograd's filtering can compute looks like: sizes of the sum that
/// `of_convolution` read.
struct Convolution {
  int64_t images, height, width, channels, outputs; // of the result
};
/// Reads a node as the sum of a batched 3 x 3 convolution of stride 1 in one group, f32 or f64, of static
/// sizes.
std::optional<Convolution> read_convolution(const NodeRef& sum);

/// The same values, but for rounding, by tiles of `tile` (2 or 4) squared: a view of a Transform of batched
/// products of a Transform of the data and one of the weights. Null where read_convolution gives nothing.
NodeRef winograd(const NodeRef& sum, int tile);

} // namespace lathe::graph
