// The move that makes a sum over all earlier iterations of a loop a running one: carry.
#include <algorithm>

#include <fmt/format.h>

#include "search/draft.hpp"

namespace lathe::search {

using namespace ast;

namespace {

/// Where a buffer begins under a loop, in the scopes of others but under no further loop.
struct Place {
  Block* block = nullptr;
  size_t position = 0;
};

Place find_alloc(Block& block, const std::string& name) {
  for (size_t i = 0; i < block.size(); ++i) {
    auto* alloc = std::get_if<Alloc>(&block[i].node);
    if (!alloc) continue;
    if (alloc->buffer->name == name) return {&block, i};
    if (const Place inner = find_alloc(alloc->body, name); inner.block) return inner;
  }
  return {};
}

/// Serial loops, one directly in the other, around one store.
struct Nest {
  std::vector<For> heads; // without bodies
  Store store;
};

std::optional<Nest> nest_of(const Stmt& stmt, const Buffer& buffer) {
  Nest nest;
  const Stmt* at = &stmt;
  while (const auto* loop = std::get_if<For>(&at->node)) {
    if (loop->kind != LoopKind::Serial || loop->body.size() != 1) return {};
    nest.heads.push_back({loop->var, loop->extent, loop->kind, loop->width, {}});
    at = &loop->body[0];
  }
  const auto* store = std::get_if<Store>(&at->node);
  if (!store || store->scatter || store->buffer->id != buffer.id) return {};
  nest.store = *store;
  return nest;
}

/// Turns `sum`, whose loop over one variable goes through everything before iteration `now`, into what
/// iteration `now` adds to it for those to come.
Verdict keep_own_part(Nest& sum, const For& loop) {
  const Expr now = loop.var;
  const std::string& name = sum.store.buffer->name;
  const auto* attr = std::get_if<LoadAttr>(&sum.store.value->attr);
  if (sum.store.combine != Op::Add || sum.store.value->op != Op::Load || !attr)
    return fmt::format("{} is no sum of elements of a buffer", name);
  std::vector<Expr> index = attr->index;
  Expr past; // goes through what lies before
  size_t axis = index.size();
  for (size_t d = 0; d < index.size(); ++d)
    for (const For& head : sum.heads) {
      if (!depends_on(index[d], head.var) || !depends_on(index[d], now)) continue;
      if (axis != index.size()) return fmt::format("{} sums up along several axes", name);
      past = head.var;
      axis = d;
    }
  if (axis == index.size()) return fmt::format("{} does not sum up what lies before {}", name, now.name());
  const auto head =
      std::find_if(sum.heads.begin(), sum.heads.end(), [&](const For& f) { return f.var == past; });
  const Expr place = index[axis], apart = place - now; // apart: -1 for the iteration before
  const auto step = stride_of(apart, past);
  const bool is_plain = step && (step->is_const(1) || step->is_const(-1)) &&
                        (apart - past * *step).is_const() && head->extent.is_const();
  if (!is_plain || apart.hi() != -1 || !proves_le(apart.lo() + loop.extent, 1))
    return fmt::format("{} does not sum up all that lies before {}", name, now.name());

  std::vector<Expr> guards = attr->guards;
  if (std::erase(guards, le(Expr(0), place)) != 1)
    return fmt::format("{} does not begin at the first iteration of {}", name, now.name());
  index[axis] = now;
  if (!proves_lt(now, attr->buffer->shape[axis]))
    return fmt::format("{} has no element for each iteration of {}", attr->buffer->name, now.name());
  for (size_t d = 0; d < index.size(); ++d)
    if (depends_on(index[d], past) || (d != axis && depends_on(index[d], now)))
      return fmt::format("{} sums up along several axes", name);
  for (const Expr e : guards)
    if (depends_on(e, past) || depends_on(e, now))
      return fmt::format("{} sums up only where {}", name, to_string(e));
  for (const Expr e : sum.store.index)
    if (depends_on(e, past) || depends_on(e, now)) return fmt::format("{} is no sum over the past", name);
  for (const For& other : sum.heads)
    if (depends_on(other.extent, past) || depends_on(other.extent, now))
      return fmt::format("the extent of {} changes", other.var.name());
  sum.heads.erase(head);
  sum.store.value = load(attr->buffer, std::move(index), std::move(guards));
  return {};
}

} // namespace

Verdict carry(Draft& draft, const Move& move) {
  const std::string &name = move.names[0], &loop_name = move.names[1];
  const LoopSite site = find_loop(draft.body, loop_name);
  if (!site) return fmt::format("there is no loop {}", loop_name);
  For& loop = site.loop();
  if (loop.kind != LoopKind::Serial) return fmt::format("{} is not serial", loop_name);
  const Place place = find_alloc(loop.body, name);
  if (!place.block) return fmt::format("{} does not compute {} for itself", loop_name, name);
  Alloc& alloc = std::get<Alloc>((*place.block)[place.position].node);
  const BufferRef buffer = alloc.buffer;
  if (buffer->scope == Scope::Local) return fmt::format("{} is shared by work-items", name);
  if (alloc.body.size() < 2) return fmt::format("nothing reads {}", name);

  // The two nests that fill it come first.
  const auto initial = nest_of(alloc.body[0], *buffer);
  auto sum = nest_of(alloc.body[1], *buffer);
  if (!initial || initial->store.combine || initial->store.value->op != Op::Const || !sum)
    return fmt::format("{} is no reduction, or a loop of it is scheduled", name);
  for (const Expr e : buffer->shape)
    if (depends_on(e, loop.var)) return fmt::format("the size of {} changes", name);
  for (const For& head : initial->heads)
    if (depends_on(head.extent, loop.var)) return fmt::format("the size of {} changes", name);
  if (auto verdict = keep_own_part(*sum, loop); !verdict.empty()) return verdict;
  const int source = std::get<LoadAttr>(sum->store.value->attr).buffer->id;
  Verdict verdict;
  size_t writes = 0;
  for_each_store(loop.body, [&](Store& store, const auto&) {
    writes += store.buffer->id == buffer->id;
    if (store.buffer->id == source) verdict = fmt::format("{} is written meanwhile", store.buffer->name);
  });
  if (writes != 2) return fmt::format("{} is written by others, too", name);
  if (!verdict.empty()) return verdict;

  // Where it began its readers stay, and behind them each iteration adds its own part.
  Stmt first = std::move(alloc.body[0]);
  Block readers = std::move(alloc.body);
  readers.erase(readers.begin(), readers.begin() + 2);
  const auto at = place.block->erase(place.block->begin() + static_cast<long>(place.position));
  place.block->insert(at, std::make_move_iterator(readers.begin()), std::make_move_iterator(readers.end()));
  place.block->push_back(nest(std::move(sum->heads), std::move(sum->store)));

  Alloc around{buffer, {}};
  around.body.push_back(std::move(first));
  around.body.push_back(std::move((*site.parent)[site.position]));
  (*site.parent)[site.position].node = std::move(around);
  return check_structure(draft.body);
}

} // namespace lathe::search
