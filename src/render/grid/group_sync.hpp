// Finds where a work-group needs barriers beyond those of the kernel. One work-item runs the statements
// outside local loops, and other work-items may read the elements that it writes.
#pragma once
#include <vector>

#include "ast/ast.hpp"

namespace lathe::render {

/// One access in code that all work-items of a group run between two barriers. work_item(axis) replaces the
/// variable of a local loop.
struct GroupAccess {
  ast::BufferRef buffer;
  std::vector<Expr> index; // empty for a Gather or a scatter
  bool writes;
};

/// The canonical variable of an axis's work-item id.
Expr work_item(int axis);

/// All accesses to global and local memory in `stmt`. All work-items run `stmt` and share its local loops; if
/// it has no local loop, one work-item runs it.
std::vector<GroupAccess> group_accesses(const ast::Stmt& stmt);

/// Whether a work-item may touch in `later` an element that another one touched in `earlier`, at least one of
/// them writing. `axes` are those with more than one work-item. `uniform` are variables that have the same
/// value in both work-items.
bool may_meet(const std::vector<GroupAccess>& earlier, const std::vector<GroupAccess>& later,
              const std::vector<int>& axes, const std::vector<Expr>& uniform);

bool has_local_loop(const ast::Block& body);
inline bool has_local_loop(const ast::Stmt& stmt) {
  if (const auto* loop = std::get_if<ast::For>(&stmt.node))
    return loop->kind == ast::LoopKind::Local || has_local_loop(loop->body);
  const auto* alloc = std::get_if<ast::Alloc>(&stmt.node);
  return alloc && has_local_loop(alloc->body);
}

} // namespace lathe::render
