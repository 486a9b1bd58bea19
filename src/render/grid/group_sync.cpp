#include "render/grid/group_sync.hpp"

#include <algorithm>

namespace lathe::render {
namespace {

bool is_shared(const ast::Buffer& buffer) {
  return buffer.scope == ast::Scope::Global || buffer.scope == ast::Scope::Local;
}

void collect(const ast::Stmt& stmt, std::vector<const ast::For*> loops, std::vector<GroupAccess>& out) {
  if (const auto* loop = std::get_if<ast::For>(&stmt.node)) {
    loops.push_back(loop);
    for (const ast::Stmt& s : loop->body) collect(s, loops, out);
    return;
  }
  if (const auto* alloc = std::get_if<ast::Alloc>(&stmt.node)) {
    for (const ast::Stmt& s : alloc->body) collect(s, loops, out);
    return;
  }
  const auto* store = std::get_if<ast::Store>(&stmt.node);
  if (!store) return;
  Substitution items;
  for (const ast::For* f : loops)
    if (f->kind == ast::LoopKind::Local) items.emplace_back(f->var, work_item(f->width));
  const auto add = [&](const ast::BufferRef& buffer, const std::vector<Expr>& index, bool writes) {
    if (!is_shared(*buffer)) return;
    GroupAccess access{buffer, {}, writes};
    for (Expr e : index) access.index.push_back(substitute(e, items));
    out.push_back(std::move(access));
  };
  const auto reads = [&](const ast::ValueRef& v) {
    if (const auto* attr = std::get_if<ast::LoadAttr>(&v->attr)) add(attr->buffer, attr->index, false);
  };
  ast::visit(store->value, reads);
  if (store->scatter) ast::visit(store->scatter, reads);
  add(store->buffer, store->index, true);
}

/// Whether two work-items with different ids on `axis` surely touch different elements. They do if one
/// dimension has the same index in both accesses, and the index depends on the id and else only on uniform
/// variables.
bool keeps_apart(const GroupAccess& a, const GroupAccess& b, int axis, const std::vector<Expr>& uniform) {
  const Expr item = work_item(axis);
  for (size_t d = 0; d < std::min(a.index.size(), b.index.size()); ++d) {
    if (a.index[d] != b.index[d]) continue;
    const auto stride = stride_of(a.index[d], item);
    if (!stride || !stride->is_const() || stride->is_const(0)) continue;
    std::vector<Expr> vars;
    collect_vars(a.index[d], vars);
    if (std::all_of(vars.begin(), vars.end(), [&](Expr v) {
          return v == item || v.id() < 0 || std::find(uniform.begin(), uniform.end(), v) != uniform.end();
        }))
      return true;
  }
  return false;
}

} // namespace

Expr work_item(int axis) {
  constexpr int kFirstId = 1 << 29; // larger than the id of any loop of a kernel
  static const char* const names[] = {"item0", "item1", "item2"};
  return loop_var(kFirstId + axis, names[axis], 1 << 20);
}

std::vector<GroupAccess> group_accesses(const ast::Stmt& stmt) {
  std::vector<GroupAccess> out;
  collect(stmt, {}, out);
  return out;
}

bool may_meet(const std::vector<GroupAccess>& earlier, const std::vector<GroupAccess>& later,
              const std::vector<int>& axes, const std::vector<Expr>& uniform) {
  for (const GroupAccess& a : earlier)
    for (const GroupAccess& b : later) {
      if (a.buffer->id != b.buffer->id || !(a.writes || b.writes)) continue;
      const auto apart = [&](int axis) { return keeps_apart(a, b, axis, uniform); };
      if (!std::all_of(axes.begin(), axes.end(), apart)) return true;
    }
  return false;
}

bool has_local_loop(const ast::Block& body) {
  return std::any_of(body.begin(), body.end(), [](const ast::Stmt& s) { return has_local_loop(s); });
}

} // namespace lathe::render
