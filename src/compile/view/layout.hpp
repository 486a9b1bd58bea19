// Places of a graph's nodes in layers: sources above their users, few crossings, neighbours near each other.
#pragma once
#include <vector>

namespace lathe::view {

/// An acyclic graph: by node, the nodes that it reads, each of a smaller number, and its width.
struct Layered {
  std::vector<std::vector<int>> sources;
  std::vector<double> widths;
};
struct Places {
  std::vector<int> layers; // by node, from 0
  std::vector<double> x;   // of a node's middle; nodes of a layer don't overlap
  double width = 0;        // of everything
};

/// Time and memory grow with nodes and edges. `gap` lies between the nodes of a layer.
Places lay_out(const Layered& graph, double gap);

} // namespace lathe::view
