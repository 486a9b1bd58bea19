#pragma once
#include "ast/ast.hpp"

namespace lathe::ast {

/// The offset of an element from the start of its buffer, in elements.
inline Expr flat_index(const Buffer& buffer, const std::vector<Expr>& index) {
  Expr flat = 0, stride = 1;
  for (size_t d = index.size(); d-- > 0; stride = stride * buffer.shape[d]) flat = flat + index[d] * stride;
  return flat;
}

} // namespace lathe::ast
