// Which barriers a work-group needs beyond those the kernel has: statements outside local loops are run by
// one work-item, and what one work-item wrote may be read by another.
#pragma once
#include <vector>

#include "ast/ast.hpp"

namespace lathe::render {

/// One access of a part of a kernel that all work-items of a group run between two barriers. The variable of
/// a local loop stands as work_item(axis).
struct GroupAccess {
  ast::BufferRef buffer;
  std::vector<Expr> index; // empty: at a computed place
  bool writes;
};

/// The canonical variable of an axis's work-item id.
Expr work_item(int axis);

/// All accesses to global and local memory in `stmt`, which is run by all work-items (its local loops shared
/// out), or by one of them if it has no local loop.
std::vector<GroupAccess> group_accesses(const ast::Stmt& stmt);

/// Whether a work-item may touch in `later` what another one touched in `earlier`, at least one of them
/// writing. `axes`: those with more than one work-item. `uniform`: variables with the same value in both.
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
