// Parts of a graph's text, for whoever shows nodes one by one.
#pragma once
#include <string>

#include "graph/node.hpp"

namespace lathe::graph {

/// The attribute as print() writes it; empty if the node has none.
std::string attribute_text(const Node& node);

} // namespace lathe::graph
