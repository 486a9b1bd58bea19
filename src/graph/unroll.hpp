// Recurrences as plain graphs, for targets that can't run a body many times.
#pragma once
#include <vector>

#include "graph/node.hpp"

namespace lathe::graph {

/// The program with each recurrence written out, step after step. Error(Limit) naming `what` for a number of
/// steps that is not known, or larger than can be compiled.
std::vector<NodeRef> unrolled(const std::vector<NodeRef>& outputs, std::string_view what);

} // namespace lathe::graph
