// Nodes of a graph, as tests write them.
#pragma once
#include "graph/node.hpp"

namespace lathe::test {

inline graph::NodeRef f32_input(const std::string& name, Shape shape = {4}) {
  return graph::input(name, DType::F32, std::move(shape));
}

} // namespace lathe::test
