// Sums of floats times small integers as sums of products of bytes. A block's floats are integers of 24 bits
// times one scale, and each such integer is three signed bytes. So a sum of the block is three sums that
// instructions on tensors compute exactly (docs/decisions/block-products.md).
//
// The error of a sum is at most 2^-23 of the block's largest float, times the sum of its integers, beside the
// roundings of the result; where the block is all below 2^-100, up to 2^-123 times that sum. Whole numbers
// whose sum fits 24 bits are added exactly. Floats that are infinite or NaN make the sums of their block NaN.
#pragma once
#include <optional>

#include "graph/node.hpp"

namespace lathe::graph {

/// Reads a node as the sum over a block of x, f32, times integers of 0 to 255. The block has up to 256
/// elements in static axes, the innermost a multiple of 4. x is the same along at least one other axis.
struct BlockOfBytes {
  NodeRef x, integers; // of the product's shape; the integers are u8
  std::vector<int> axes;
};
std::optional<BlockOfBytes> read_block_of_bytes(const NodeRef& sum);

/// The same values, but for rounding, by three sums of products of bytes. Null where read_block_of_bytes
/// gives nothing.
NodeRef three_bytes(const NodeRef& sum);

} // namespace lathe::graph
