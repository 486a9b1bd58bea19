// Pieces of a compilation on all cores, in the expression scope of the thread that asks for them.
#pragma once
#include <cstddef>
#include <functional>

#include "core/on_cores.hpp"
#include "view/expr_scope.hpp"

namespace lathe {

/// As on_cores(). Expressions that a piece makes belong to the calling thread's scope.
inline void on_cores_in_scope(size_t count, const std::function<void(size_t)>& piece) {
  const ExprScopeRef scope = current_expr_scope();
  on_cores(count, [&](size_t k) {
    const InExprScope here(scope);
    piece(k);
  });
}

} // namespace lathe
