// Names for inputs that the search makes up.
#pragma once
#include <string>

#include "graph/node.hpp"

namespace lathe::search {

/// `wanted` with as many `_` as it takes for no named input among the nodes to begin with it.
template <class Nodes> std::string unused_prefix(std::string wanted, const Nodes& nodes) {
  for (bool taken = true; taken;) {
    taken = false;
    for (const graph::NodeRef& node : nodes)
      if (node->op == Op::Input) taken |= std::get<graph::InputAttr>(node->attr).name.rfind(wanted, 0) == 0;
    if (taken) wanted += "_";
  }
  return wanted;
}

} // namespace lathe::search
