#pragma once
#include <algorithm>

#include "ast/ast.hpp"

namespace lathe::ast {

/// The offset of an element from the start of its buffer, in elements.
inline Expr flat_index(const Buffer& buffer, const std::vector<Expr>& index) {
  Expr flat = 0, stride = 1;
  for (size_t d = index.size(); d-- > 0; stride = stride * buffer.shape[d]) flat = flat + index[d] * stride;
  return flat;
}

/// Whether one of the expressions, of an index or of guards, depends on the variable.
inline bool depend_on(const std::vector<Expr>& es, Expr var) {
  return std::any_of(es.begin(), es.end(), [&](Expr e) { return depends_on(e, var); });
}

} // namespace lathe::ast
