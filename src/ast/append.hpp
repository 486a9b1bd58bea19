// Small helpers that join blocks, or rebuild a statement or a kernel with changed parts.
#pragma once
#include "ast/ast.hpp"

namespace lathe::ast {

/// Moves the statements of `from` to the end of `to`.
inline void append(Block& to, Block from) {
  for (Stmt& stmt : from) to.push_back(std::move(stmt));
}

/// The statement, its body (if it has one) replaced by block(body).
template <class F> Stmt with_body(const Stmt& stmt, F&& block) {
  if (const auto* loop = std::get_if<For>(&stmt.node))
    return {For{loop->var, loop->extent, loop->kind, loop->width, block(loop->body)}};
  if (const auto* alloc = std::get_if<Alloc>(&stmt.node)) return {Alloc{alloc->buffer, block(alloc->body)}};
  return stmt;
}

/// The kernel after `change` has edited each statement in place, inner ones first.
template <class F> Kernel with_statements(const Kernel& kernel, F&& change) {
  Rewriter rewriter;
  rewriter.on_stmt = [&](Stmt stmt) {
    change(stmt);
    Block out;
    out.push_back(std::move(stmt));
    return out;
  };
  Kernel out = kernel;
  out.body = rewrite(kernel.body, rewriter);
  return out;
}

} // namespace lathe::ast
