// What depends on realised tensors alone is the same at every call of a program: it is computed once, when
// the program is compiled, and read from then on.
//
//   NodeRef y = ...;                                  // x * (weights * scale), weights and scale realised
//   fold_constants({y})                               // x * (one realised input)
#pragma once
#include <vector>

#include "graph/node.hpp"

namespace lathe::graph {

/// Computes the (static) values of nodes that hold no named input, row-major, in new storage. Called from several threads.
using Evaluate = std::vector<StorageRef> (*)(const std::vector<NodeRef>&);

/// The same program with every subgraph that computes something from realised inputs, numbers and indices
/// alone replaced by a realised input with its value. Views and bare inputs stay as they are: nothing is
/// computed for them. So does what costs more to keep than to compute: a result larger than all it is made
/// of, unless it takes many operations an element (a table of sines is kept, a mask or a cast to a wider
/// dtype is not).
///
/// Values are computed by `evaluate`; where it is null, nothing is replaced. They are shared: as long as any program holds one,
/// the same subgraph of the same tensors isn't computed again. Safe to call from several threads.
std::vector<NodeRef> fold_constants(const std::vector<NodeRef>& outputs, Evaluate evaluate);

} // namespace lathe::graph
