// From a lazy tensor to its data. Compiling lives on a higher floor, which registers itself here when the
// library loads.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "graph/node.hpp"

namespace lathe::graph {

/// Computes the values of nodes that hold no named input and have static shapes. Each value is row-major, in
/// new storage. Called from several threads.
using Evaluate = std::vector<StorageRef> (*)(const std::vector<NodeRef>&);

/// Sets the function that computes the values of tensors.
void set_realiser(Evaluate realiser);

/// The node of a buffer that holds `node`'s value. A realised input, a contiguous view of one and a constant
/// take no computation. Throws Error(Name) if a named input is left, Error(Shape) for a symbolic shape; `op`
/// begins the message.
NodeRef realise(std::string_view op, const NodeRef& node);

/// The buffer that holds the node's value, if some Tensor has realised it; else null.
NodeRef realised_of(const NodeRef& node);
/// The same program with every node that some Tensor has realised replaced by its buffer.
std::vector<NodeRef> with_realised(const std::vector<NodeRef>& outputs);
/// Programs with realised inputs made into named ones ("in0", "in1", ...), so that whoever keeps them keeps
/// no data.
struct Dataless {
  std::vector<NodeRef> outputs;
  std::map<std::string, StorageRef> data; // of the named inputs that were realised ones
};
Dataless without_data(const std::vector<NodeRef>& outputs);

} // namespace lathe::graph
