#include "ast/copies.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "ast/buffer.hpp"

namespace lathe::ast {

Copier::Copier(const Kernel& kernel) {
  const auto see = [&](const BufferRef& buffer) {
    next_buffer_ = std::max(next_buffer_, buffer->id + 1);
    names_.insert(buffer->name);
  };
  for (const Param& param : kernel.params) see(param.buffer);
  visit(kernel.body, [&](const Stmt& stmt, const std::vector<const For*>&) {
    if (const auto* loop = std::get_if<For>(&stmt.node))
      next_loop_ = std::max(next_loop_, loop->var.id() + 1);
    if (const auto* alloc = std::get_if<Alloc>(&stmt.node)) see(alloc->buffer);
  });
}

BufferRef Copier::fresh_buffer(const std::string& name, DType dtype, Shape shape, Scope scope) {
  const int id = next_buffer_++;
  std::string unique = name;
  for (int k = id; !names_.insert(unique).second; ++k) unique = fmt::format("{}{}", name, k);
  return make_buffer({id, std::move(unique), dtype, std::move(shape), scope});
}

Block Copier::copy(const Block& block, const Substitution& vars) {
  Substitution all = vars;
  std::vector<std::pair<BufferRef, BufferRef>> buffers;
  std::vector<std::pair<Expr, Expr>> loops;
  visit(block, [&](const Stmt& stmt, const std::vector<const For*>&) {
    if (const auto* loop = std::get_if<For>(&stmt.node)) {
      const Expr extent = lathe::substitute(loop->extent, all);
      loops.emplace_back(loop->var, loop_var(fresh_loop_id(), loop->var.name(), extent));
      all.push_back(loops.back());
    } else if (const auto* alloc = std::get_if<Alloc>(&stmt.node)) {
      Buffer made = *alloc->buffer;
      made.id = next_buffer_++;
      for (int k = made.id; !names_.insert(made.name).second; ++k)
        made.name = fmt::format("{}_{}", alloc->buffer->name, k);
      for (Expr& e : made.shape) e = lathe::substitute(e, all);
      buffers.emplace_back(alloc->buffer, make_buffer(std::move(made)));
    }
  });
  Rewriter rewriter;
  rewriter.on_expr = [&](Expr e) { return lathe::substitute(e, all); };
  rewriter.on_buffer = [&](const BufferRef& b) {
    for (const auto& [from, to] : buffers)
      if (from == b) return to;
    return b;
  };
  rewriter.on_stmt = [&](Stmt stmt) {
    if (auto* loop = std::get_if<For>(&stmt.node))
      for (const auto& [from, to] : loops)
        if (from.id() == loop->var.id()) loop->var = to;
    Block out;
    out.push_back(std::move(stmt));
    return out;
  };
  return rewrite(block, rewriter);
}

void drop_idle_loops(Block& block) {
  std::erase_if(block, [](Stmt& stmt) {
    if (auto* alloc = std::get_if<Alloc>(&stmt.node)) {
      drop_idle_loops(alloc->body);
      return alloc->body.empty();
    }
    auto* loop = std::get_if<For>(&stmt.node);
    if (!loop) return false;
    if (loop->extent.hi() <= 0) return true;
    drop_idle_loops(loop->body);
    return loop->body.empty();
  });
}

} // namespace lathe::ast
