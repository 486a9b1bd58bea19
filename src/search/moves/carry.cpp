// The move that makes a sum over all earlier iterations of a loop a running one: carry.
#include <iterator>

#include <fmt/format.h>

#include "search/moves/draft.hpp"

namespace lathe::search {

using namespace ast;

namespace {

/// The Alloc of a buffer in the block, inside the Allocs of others but under no further loop.
Site find_alloc(Block& block, int buffer) {
  for (size_t i = 0; i < block.size(); ++i) {
    auto* alloc = std::get_if<Alloc>(&block[i].node);
    if (!alloc) continue;
    if (alloc->buffer->id == buffer) return {&block, i};
    if (const Site inner = find_alloc(alloc->body, buffer); inner.block) return inner;
  }
  return {};
}

/// Replaces the loop by its body.
void leave_out(Stmt& nest, const For* loop) {
  Stmt* at = &nest;
  while (std::get_if<For>(&at->node) != loop) at = &std::get<For>(at->node).body[0];
  Stmt body = std::move(std::get<For>(at->node).body[0]);
  *at = std::move(body);
}

/// Turns a nest that sums up the elements of all earlier iterations of `loop` into one that adds the current
/// iteration's element, for the iterations to come. The nest loses its loop over the earlier iterations.
Verdict keep_own_part(Stmt& stmt, const For& loop) {
  const Nest sum = perfect_nest(stmt);
  const Expr now = loop.var;
  const std::string& name = sum.store->buffer->name;
  const auto* attr = std::get_if<LoadAttr>(&sum.store->value->attr);
  if (sum.store->combine != Op::Add || sum.store->value->op != Op::Load || !attr)
    return fmt::format("{} is no sum of elements of a buffer", name);
  std::vector<Expr> index = attr->index;
  const For* past = nullptr; // the nest's loop over the earlier iterations
  size_t axis = index.size();
  for (size_t d = 0; d < index.size(); ++d)
    for (const For* own : sum.loops) {
      if (!depends_on(index[d], own->var) || !depends_on(index[d], now)) continue;
      if (past) return fmt::format("{} sums up along several axes", name);
      past = own;
      axis = d;
    }
  if (!past) return fmt::format("{} does not sum up what lies before {}", name, now.name());
  const Expr place = index[axis], apart = place - now; // apart: -1 for the iteration before
  const auto step = stride_of(apart, past->var);
  const bool is_plain = step && (step->is_const(1) || step->is_const(-1)) &&
                        (apart - past->var * *step).is_const() && past->extent.is_const();
  if (!is_plain || apart.hi() != -1 || !proves_le(apart.lo() + loop.extent, 1))
    return fmt::format("{} does not sum up all that lies before {}", name, now.name());

  const auto changes = [&](Expr e) { return depends_on(e, past->var) || depends_on(e, now); };
  std::vector<Expr> guards = attr->guards;
  if (std::erase(guards, le(Expr(0), place)) != 1)
    return fmt::format("{} does not begin at the first iteration of {}", name, now.name());
  index[axis] = now;
  if (!proves_lt(now, attr->buffer->shape[axis]))
    return fmt::format("{} has no element for each iteration of {}", attr->buffer->name, now.name());
  for (size_t d = 0; d < index.size(); ++d)
    if (d != axis && changes(index[d])) return fmt::format("{} sums up along several axes", name);
  for (const Expr e : guards)
    if (changes(e)) return fmt::format("{} sums up only where {}", name, to_string(e));
  for (const Expr e : sum.store->index)
    if (changes(e)) return fmt::format("{} is no sum over the past", name);
  for (const For* own : sum.loops)
    if (changes(own->extent)) return fmt::format("the extent of {} changes", own->var.name());
  sum.store->value = load(attr->buffer, std::move(index), std::move(guards));
  leave_out(stmt, past);
  return {};
}

} // namespace

Verdict carry(Draft& draft, StageHandle stage, LoopHandle handle) {
  const std::string &name = stage.buffer().name(), &loop_name = handle.name();
  const LoopSite site = find_loop(draft, handle);
  if (!site) return fmt::format("there is no loop {}", loop_name);
  For& loop = site.loop();
  if (loop.kind != LoopKind::Serial) return fmt::format("{} is not serial", loop_name);
  const Site place = find_alloc(loop.body, draft.id_of(stage.buffer()));
  if (!place.block) return fmt::format("{} does not compute {} for itself", loop_name, name);
  Alloc& alloc = std::get<Alloc>((*place.block)[place.position].node);
  const BufferRef buffer = alloc.buffer;
  if (buffer->scope == Scope::Local) return fmt::format("{} is shared by work-items", name);
  if (alloc.body.size() < 2) return fmt::format("nothing reads {}", name);

  // The two nests that fill the buffer come first.
  const Nest initial = perfect_nest(alloc.body[0]), sum = perfect_nest(alloc.body[1]);
  const auto fills = [&](const Nest& nest) {
    return nest.store && !nest.store->scatter && nest.store->buffer->id == buffer->id;
  };
  if (!fills(initial) || initial.store->combine || initial.store->value->op != Op::Const || !fills(sum))
    return fmt::format("{} is no reduction, or a loop of it is scheduled", name);
  for (const Expr e : buffer->shape)
    if (depends_on(e, loop.var)) return fmt::format("the size of {} changes", name);
  for (const For* own : initial.loops)
    if (depends_on(own->extent, loop.var)) return fmt::format("the size of {} changes", name);
  const int source =
      sum.store->value->op == Op::Load ? std::get<LoadAttr>(sum.store->value->attr).buffer->id : -1;
  Verdict verdict;
  size_t writes = 0;
  for_each_store(loop.body, [&](Store& store, const auto&) {
    writes += store.buffer->id == buffer->id;
    if (store.buffer->id == source) verdict = fmt::format("{} is written meanwhile", store.buffer->name);
  });
  if (writes != 2) return fmt::format("{} is written by others, too", name);
  if (!verdict.empty()) return verdict;
  if (verdict = keep_own_part(alloc.body[1], loop); !verdict.empty()) return verdict;

  // The readers take the place of the Alloc, and behind them each iteration adds its own part.
  Stmt first = std::move(alloc.body[0]), own_part = std::move(alloc.body[1]);
  Block readers = std::move(alloc.body);
  readers.erase(readers.begin(), readers.begin() + 2);
  const auto at = place.block->erase(place.block->begin() + static_cast<long>(place.position));
  place.block->insert(at, std::make_move_iterator(readers.begin()), std::make_move_iterator(readers.end()));
  place.block->push_back(std::move(own_part));

  Alloc around{buffer, {}};
  around.body.push_back(std::move(first));
  around.body.push_back(std::move((*site.parent)[site.position]));
  (*site.parent)[site.position].node = std::move(around);
  return check_structure(draft.body);
}

} // namespace lathe::search
