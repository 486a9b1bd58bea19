// Values that depend on realised tensors alone are the same at every call of a program. They are computed
// once, when the program is compiled, and read from then on.
//
//   NodeRef y = ...;                                  // x * (weights * scale), weights and scale realised
//   fold_constants({y})                               // x * (one realised input)
#pragma once
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "graph/realise.hpp"

namespace lathe::graph {

/// The same program, with a realised input in place of every subgraph that computes a value from realised
/// inputs, numbers and indices alone. Views and bare inputs stay, because nothing is computed for them. A
/// value that costs more to load than to compute stays, too: one larger than its inputs together, unless it
/// takes many operations per element. A table of sines is replaced; a mask or a cast to a wider dtype is not. So
/// does what compile() can't afford: a value of more than `folded_bytes` and more than its inputs together, one
/// that takes too many operations, or one of larger values on the way. A single number is always replaced, as a
/// launch costs more.
///
/// `evaluate` computes the values; if it is null, nothing is replaced. `became`, if not null, is told what
/// nodes that changed became. Programs share the values: as long as
/// any program holds one, the same subgraph of the same tensors isn't computed again. Safe to call from
/// several threads.
std::vector<NodeRef> fold_constants(const std::vector<NodeRef>& outputs, Evaluate evaluate,
                                    int64_t folded_bytes = INT64_MAX,
                                    std::unordered_map<const Node*, NodeRef>* became = nullptr);

} // namespace lathe::graph
