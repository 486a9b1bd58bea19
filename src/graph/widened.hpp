#pragma once
#include "graph/node.hpp"

namespace lathe::graph {

/// Whether the node is a cast of narrower numbers. It is a form for arithmetic: the narrow form is fewer
/// bytes to store, and what instructions on tensors take.
inline bool is_widened(const NodeRef& node) {
  if (node->op != Op::Cast) return false;
  const DType from = node->sources[0]->dtype;
  return from != DType::Bool && !is_narrow(from) && size_of(from) < size_of(node->dtype);
}

} // namespace lathe::graph
