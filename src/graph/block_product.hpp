// A vector times a matrix of integers that are scaled by blocks.
//
// Weights of few bits are integers q with a scale s, and perhaps an offset m, for every so many of a row:
//
//   sum over k of x[k] (s q[k] + m)  =  sum over blocks of (s sum of x q  +  m sum of x)
//
// The right side multiplies and adds once per element; the sums of x are those of the vector alone.
#pragma once
#include "graph/node.hpp"

namespace lathe::graph {

/// The form above of a Reduce that adds up f32 products of a vector and such numbers, over one axis of static
/// size; null for other nodes, and where a matrix's elements meet more than 64 vectors: to make floats of them
/// once is cheaper then.
///
/// Scales and offsets are sums and products of what is the same throughout a block. Results differ from those
/// of the left side by the roundings of a sum in another order.
NodeRef block_product(const NodeRef& sum);

} // namespace lathe::graph
