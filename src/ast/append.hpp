// Blocks one after the other.
#pragma once
#include "ast/ast.hpp"

namespace lathe::ast {

/// Statements are owned: those of `from` move over.
inline void append(Block& to, Block from) {
  for (Stmt& stmt : from) to.push_back(std::move(stmt));
}

} // namespace lathe::ast
