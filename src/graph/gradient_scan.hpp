// Derivatives of recurrences. They are recurrences, too: they go through the steps in the opposite order, and
// read the states that each step was given. Steps that did not run don't run backward either: what said so in each
// step is among the rows.
#pragma once
#include <map>

#include "graph/gradient.hpp"
#include "graph/scan.hpp"

namespace lathe::graph {

/// The recurrences of a graph, each of which hands on the cotangents of all its results at once.
class ScanCotangents {
public:
  /// `order`: the nodes of the graph, sources before users.
  explicit ScanCotangents(const std::vector<NodeRef>& order);

  /// Takes the cotangent of the Scan at this position of the order; nothing if it has none. The positions
  /// come in descending order. Returns the parts of the sources' cotangents at the position that comes last
  /// of those of the recurrence, before that nothing. `leads`: by source, whether its part is wanted.
  std::vector<Part> take(size_t position, const NodeRef& node, Part cotangent, const std::vector<bool>& leads);

private:
  struct Of {
    NodeRef key;                   // the node of result 0
    size_t first;                  // position
    std::vector<Part> cotangents{}; // by result
  };
  std::map<const Node*, Of> recurrences_; // by key
};

} // namespace lathe::graph
