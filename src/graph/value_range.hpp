// Which integers a node can hold, from the dtypes and constants that it is computed from; and rewrites that
// rest on it.
#pragma once
#include <optional>

#include "graph/node.hpp"

namespace lathe::graph {

/// lo and hi are among the bounds: lo <= value <= hi.
struct ValueRange {
  int64_t lo, hi;
};

/// Nothing for floats, and where no bounds are known that fit int64.
std::optional<ValueRange> range_of(const NodeRef& node);

/// A comparison, maximum or remainder of integers that the ranges of its operands decide; else null. Such are
/// the checks of an index that is read from bytes.
NodeRef decided_by_range(const NodeRef& node);

/// Arithmetic and comparisons of 64-bit integers, in 32 bits where the operands are cast from fewer bits and
/// the result is known to fit. Null for other nodes.
NodeRef narrow_arithmetic(const NodeRef& node);

/// A sum of 64-bit integers whose terms are known to be small: partial sums along the last of the axes are
/// taken in 32 bits, so a vector holds twice as many. Null for other nodes.
NodeRef narrow_sum(const NodeRef& sum);

} // namespace lathe::graph
