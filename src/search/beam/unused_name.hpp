// Names for inputs that the search makes up.
#pragma once
#include <string>

#include "graph/node.hpp"

namespace lathe::search {

/// A prefix that no named input among the nodes begins with: `wanted`, followed by as many `_` as needed.
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
