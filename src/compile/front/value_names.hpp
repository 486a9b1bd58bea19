// What users call the values of a simplified graph: the functions that made them, whose marks simplifying
// takes away (graph/function.hpp), and the names in CompileOptions::origins.
#pragma once
#include <map>

#include "lathe/tensor.hpp"
#include "lower/formula.hpp"

namespace lathe::pipeline {

struct ValueNames {
  lower::FunctionCalls calls;                                  // functions of elements
  std::vector<std::pair<graph::NodeRef, std::string>> origins; // nodes without views, and their names
};

/// Of the values under the nodes, and of `origins`.
ValueNames names_in(const std::vector<graph::NodeRef>& nodes, const std::map<std::string, Tensor>& origins,
                    bool simplifies);
/// The same names after some nodes became others.
ValueNames renamed(const ValueNames& names,
                   const std::unordered_map<const graph::Node*, graph::NodeRef>& became);

} // namespace lathe::pipeline
