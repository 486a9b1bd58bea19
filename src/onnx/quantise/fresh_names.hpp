// Names that a graph does not have yet.
#pragma once
#include <set>
#include <string>

#include "onnx/graph.hpp"

namespace lathe::onnx {

class FreshNames {
public:
  /// Knows the names of nodes and values in the graph and the bodies in it.
  explicit FreshNames(const GraphDef& graph) { add(graph); }
  /// `wanted`, or with _2, _3 ... behind it; taken from then on.
  std::string operator()(const std::string& wanted);

private:
  void add(const GraphDef& graph);

  std::set<std::string> names_;
};

} // namespace lathe::onnx
