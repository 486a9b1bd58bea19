// What renderers may jump over: the values that only the first choice of a Where needs, where there are many
// of them. A slow path that hardly any element takes then costs a test; the Where says the same either way.
#pragma once
#include <unordered_map>
#include <vector>

#include "ast/ast.hpp"

namespace lathe::ast {

struct Detour {
  ValueRef where;
  std::vector<ValueRef> values; // sources first; the last is where's first choice
};

/// Disjoint, in the order of visit(): none is inside another. Usually there is none, and that is found out
/// quickly.
std::vector<Detour> find_detours(const ValueRef& root);

} // namespace lathe::ast
