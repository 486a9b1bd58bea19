// What moves build their statements from: nests, loops with ids of their own, scratch.
#include <algorithm>

#include "ast/append.hpp"
#include "search/moves/draft.hpp"
#include "search/moves/ids.hpp"

namespace lathe::search {

using namespace ast;

Block nest(std::vector<For> loops, Block body) {
  for (auto loop = loops.rbegin(); loop != loops.rend(); ++loop) {
    loop->body = std::move(body);
    body.clear();
    body.push_back(Stmt{std::move(*loop)});
  }
  return body;
}
Stmt nest(std::vector<For> loops, Store store) {
  Block body;
  body.push_back(Stmt{std::move(store)});
  return std::move(nest(std::move(loops), std::move(body)).front());
}

void put_before_body(For& loop, Alloc alloc) {
  const bool shared = alloc.buffer->scope == Scope::Local;
  if (shared) alloc.body.push_back(Stmt{Barrier{}});
  append(alloc.body, std::move(loop.body));
  if (shared) alloc.body.push_back(Stmt{Barrier{}});
  loop.body.clear();
  loop.body.push_back(Stmt{std::move(alloc)});
}

LoopMaker::LoopMaker(Draft& draft, int stage) : draft_(draft), next_(ids::first_loop(stage)) {
  ast::visit(draft.body, [&](const Stmt& stmt, const auto&) {
    if (auto* loop = std::get_if<For>(&stmt.node))
      if (ids::is_loop_of(loop->var.id(), stage)) next_ = std::max(next_, loop->var.id() + 1);
  });
}

Expr LoopMaker::make(LoopHandle name, Expr extent) {
  draft_.handles.add(next_, name);
  return loop_var(next_++, name.name(), extent);
}

Expr LoopMaker::make_condition(BufferHandle owner, Expr condition) {
  return make(owner.loop(Part::Clearing, next_ % ids::kLoopsPerStage), condition);
}

std::vector<For> LoopMaker::make_like(const std::vector<const For*>& loops, BufferHandle owner, Part part,
                                      Substitution& vars) {
  std::vector<For> heads;
  for (const For* f : loops) {
    const Expr extent = substitute(f->extent, vars);
    const Expr var = make(owner.loop(part, static_cast<int>(heads.size())), extent);
    vars.emplace_back(f->var, var);
    heads.push_back({var, extent, LoopKind::Serial, 0, {}});
  }
  return heads;
}

int fresh_buffer_id(const Block& body, int stage) {
  int next = ids::first_scratch(stage);
  ast::visit(body, [&](const Stmt& stmt, const auto&) {
    if (auto* alloc = std::get_if<Alloc>(&stmt.node))
      if (alloc->buffer->id >= next && alloc->buffer->id < ids::first_scratch(stage + 1))
        next = alloc->buffer->id + 1;
  });
  return next;
}

int scratch_number(int buffer) { return (buffer - ids::kScratchBase) % ids::kScratchPerStage; }

} // namespace lathe::search
