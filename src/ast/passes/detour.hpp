// Detours: values that renderers may jump over. Only the first choice of a Where needs them, and they are
// many. With the jump, a slow path that hardly any element takes costs one test. The result is the same.
#pragma once
#include <unordered_map>
#include <vector>

#include "ast/ast.hpp"

namespace lathe::ast {

struct Detour {
  ValueRef where;
  std::vector<ValueRef> values; // sources first; the last is where's first choice
};

/// The detours under `root`, in the order of visit(). They are disjoint: none is inside another. The common
/// result, no detour, takes little time to find.
std::vector<Detour> find_detours(const ValueRef& root);

} // namespace lathe::ast
