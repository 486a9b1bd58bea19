// Operands of sums of products, as buffers with a stride along each axis of the product. The rewrites that
// compute such a sum in another way read this form and build it.
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
/// The node as an operand; nothing if it has a mask, or if its offset or a stride is not constant.
std::optional<Operand> operand_of(const NodeRef& node);

/// The product that a sum adds up without a view between, f32 or f64 of static sizes; null for other nodes.
NodeRef summed_floats(const NodeRef& sum);

/// A view of the node's buffer with this shape, these strides and this offset.
NodeRef strided(const NodeRef& node, const std::vector<int64_t>& shape, const std::vector<int64_t>& strides,
                int64_t offset = 0);

} // namespace lathe::graph
