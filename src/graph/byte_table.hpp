// A function of one byte has 256 values.
//
//   u8 -> dequantise -> sigmoid -> quantise -> u8    =    table[u8]
#pragma once
#include "graph/node.hpp"

namespace lathe::graph {

/// A Gather from a table of 256 entries, if the node's elements have 8 bits and are computed, by many
/// elementwise operations, from those of one tensor of 8 bits and from numbers. Null for other nodes. The
/// operations compute the table, so each value keeps its bits; where the numbers are known, the table is
/// folded (constants.hpp). A table of a table's results is one table.
NodeRef byte_table(const NodeRef& node);

} // namespace lathe::graph
