// Operands of sums of products as buffers with a stride along each axis of the product: what the rewrites
// that compute such a sum in another way read, and what they build.
#pragma once
#include <optional>

#include "graph/node.hpp"

namespace lathe::graph {

/// An operand of the product: a value and its stride along each axis of the product.
struct Operand {
  NodeRef source;
  std::vector<int64_t> strides;
  int64_t offset = 0;
  int64_t along(int axis) const { return axis < 0 ? 0 : strides[static_cast<size_t>(axis)]; }
};
/// Nothing where the operand has a mask, or where a stride is not constant.
std::optional<Operand> operand_of(const NodeRef& node);

/// The product that a sum adds up as it stands, f32 or f64 of static sizes; null for other nodes.
NodeRef summed_floats(const NodeRef& sum);

/// The node's elements at these places.
NodeRef strided(const NodeRef& node, const std::vector<int64_t>& shape, const std::vector<int64_t>& strides,
                int64_t offset = 0);

} // namespace lathe::graph
