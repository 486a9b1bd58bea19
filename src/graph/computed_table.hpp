// A gather from a table that is computed, such as an embedding of quantised weights.
#pragma once
#include "graph/node.hpp"

namespace lathe::graph {

/// A Gather of few elements from a large table of values that ops compute element by element: the same
/// values, computed for the gathered elements alone. Null for other nodes.
NodeRef gather_of_computed(const NodeRef& gather);

} // namespace lathe::graph
