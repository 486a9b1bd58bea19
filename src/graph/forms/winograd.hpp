// Winograd's minimal filtering for convolutions with 3 x 3 taps and stride 1 (A. Lavin and S. Gray, "Fast
// Algorithms for Convolutional Neural Networks", arXiv:1509.09308). For a pair of channels, a tile of m x m
// results takes (m + 2)^2 products, where the direct sum takes 9 m^2.
//
// The filtering computes the same sums in another way, and rounds differently. With tiles of 4, the largest
// difference from direct f32 sums was 5.4e-6 of the largest result, over 64 channels of 56 x 56 (one trial).
// tests/unit/winograd_test.cpp compares with f64. An infinity or a NaN spoils every result of the tiles that
// read it; a direct sum spoils fewer.
#pragma once
#include <optional>

#include "graph/node.hpp"

namespace lathe::graph {

/// The sizes of a convolution that Winograd's filtering can compute, as read_convolution reads them.
struct Convolution {
  int64_t images, height, width, channels, outputs; // of the result
};
/// Reads a node as the sum of a batched 3 x 3 convolution of stride 1 in one group, f32 or f64, of static
/// sizes. Nothing for other nodes.
std::optional<Convolution> read_convolution(const NodeRef& sum);

/// The same values, but for rounding, computed in tiles of 2 x 2 or 4 x 4 results (`tile` is 2 or 4). The
/// result is a view of a Transform of batched products of two Transforms, one of the data and one of the
/// weights. Null where read_convolution gives nothing.
NodeRef winograd(const NodeRef& sum, int tile);

} // namespace lathe::graph
