// Moves on loops: split, reorder, unroll, vectorise, parallelise, bind.
#include <algorithm>
#include <bit>

#include <fmt/format.h>

#include "ast/buffer.hpp"
#include "ast/computed_index.hpp"
#include "search/moves/draft.hpp"

namespace lathe::search {

using namespace ast;

namespace {

Verdict no_loop(LoopHandle loop) { return fmt::format("there is no loop {}", loop.name()); }

Verdict not_serial(const For& loop) {
  return fmt::format("{} is already scheduled as something else than a serial loop", loop.var.name());
}

bool holds_scatter(Block& body) {
  bool found = false;
  for_each_store(body, [&](Store& store, const auto&) { found |= static_cast<bool>(store.scatter); });
  return found;
}

void allocated_in(const Block& body, std::set<int>& ids) {
  for (const Stmt& stmt : body) {
    if (auto* alloc = std::get_if<Alloc>(&stmt.node)) {
      ids.insert(alloc->buffer->id);
      allocated_in(alloc->body, ids);
    } else if (auto* loop = std::get_if<For>(&stmt.node)) {
      allocated_in(loop->body, ids);
    }
  }
}

/// Why the iterations may not run in any order beside scatters: sums that are read while they grow depend on
/// it. Empty if they may.
Verdict sums_in_any_order(Block& body) {
  std::set<int> own, read;
  allocated_in(body, own);
  for_each_load(body, [&](const Value& value) { read.insert(std::get<LoadAttr>(value.attr).buffer->id); });
  Verdict verdict;
  for_each_store(body, [&](Store& store, const auto&) {
    const int id = store.buffer->id;
    if (store.combine && read.contains(id) && !own.contains(id))
      verdict = fmt::format("{} is read while it is summed up", store.buffer->name);
  });
  return verdict;
}

Verdict in_any_order(Block& body) {
  return holds_scatter(body) ? "a scatter's order of iterations matters" : sums_in_any_order(body);
}

/// Checks that the loop itself makes all private scratch that it uses: another thread or work-item can't read
/// such scratch.
Verdict keeps_private_scratch(For& loop) {
  std::set<int> own;
  allocated_in(loop.body, own);
  Verdict verdict;
  const auto check = [&](const Buffer& buffer) {
    const bool is_private = buffer.scope == Scope::Packed || buffer.scope == Scope::Register;
    if (is_private && !own.contains(buffer.id))
      verdict = fmt::format("{} is made outside {} and is private to a thread", buffer.name, loop.var.name());
  };
  for_each_store(loop.body, [&](Store& store, const auto&) { check(*store.buffer); });
  for_each_load(loop.body, [&](const Value& value) { check(*std::get<LoadAttr>(value.attr).buffer); });
  return verdict;
}

/// Checks that iterations of the loop store to different elements: each buffer stored to is made in the loop,
/// or the loop's variable indexes it.
Verdict independent(For& loop) {
  if (holds_scatter(loop.body)) return "a scatter's iterations depend on each other";
  if (auto verdict = keeps_private_scratch(loop); !verdict.empty()) return verdict;
  std::set<int> own;
  allocated_in(loop.body, own);
  Verdict verdict;
  for_each_store(loop.body, [&](Store& store, const std::vector<For*>& inner) {
    if (own.contains(store.buffer->id) || !verdict.empty()) return;
    // Along some dimension the index moves by more per iteration than the loops inside can cover.
    for (Expr index : store.index) {
      const auto step = stride_of(index, loop.var);
      if (!step || !step->is_const() || step->is_const(0)) continue;
      std::vector<Expr> vars;
      for (const For* f : inner) vars.push_back(f->var);
      const Expr part = separate(index, vars).second;
      if (part.hi() - part.lo() < std::abs(step->value())) return;
    }
    verdict = fmt::format("the iterations of {} share elements of {}", loop.var.name(), store.buffer->name);
  });
  return verdict;
}

} // namespace

Verdict split(Draft& draft, LoopHandle loop, int64_t factor) {
  const LoopSite site = find_loop(draft, loop);
  if (!site) return no_loop(loop);
  if (site.loop().kind != LoopKind::Serial) return not_serial(site.loop());
  if (factor < 2) return "the factor must be at least 2";
  const Expr extent = site.loop().extent;
  if (extent.hi() <= factor)
    return fmt::format("the factor {} leaves nothing to split of {}", factor, to_string(extent));

  LoopMaker loops(draft, loop.stage());
  For inner = std::move(site.loop());
  const Expr old = inner.var;
  const Expr outer_var = loops.make(loop.outer(), ceildiv(extent, factor));
  const Expr inner_extent = min(Expr(factor), extent - outer_var * factor);
  const Expr inner_var = loops.make(loop.inner(), inner_extent);
  rename(inner.body, {{old, outer_var * factor + inner_var}});
  inner.var = inner_var;
  inner.extent = inner_extent;
  For outer{outer_var, *outer_var.extent(), LoopKind::Serial, 0, {}};
  outer.body.push_back(Stmt{std::move(inner)});
  (*site.parent)[site.position].node = std::move(outer);
  return {};
}

Verdict reorder(Draft& draft, const std::vector<LoopHandle>& loops) {
  if (loops.size() < 2) return "reordering needs at least two loops";
  // The perfect nest that holds all of the loops: from the outermost named one inwards while a body is one
  // loop.
  LoopSite top;
  std::vector<int> order; // ids
  for (const LoopHandle loop : loops) {
    const LoopSite site = find_loop(draft, loop);
    if (!site) return no_loop(loop);
    if (!top || site.enclosing.size() < top.enclosing.size()) top = site;
    if (std::count(loops.begin(), loops.end(), loop) > 1) return loop.name() + " is named twice";
    order.push_back(site.loop().var.id());
  }
  std::vector<For*> chain{&top.loop()};
  auto is_named = [&](const For* f) {
    return std::find(order.begin(), order.end(), f->var.id()) != order.end();
  };
  size_t named = 1;
  while (named < order.size()) {
    Block& body = chain.back()->body;
    if (body.size() != 1 || !std::holds_alternative<For>(body[0].node))
      return fmt::format("{} and the other loops are not one perfect nest", chain.back()->var.name());
    chain.push_back(&std::get<For>(body[0].node));
    named += is_named(chain.back());
  }
  if (auto verdict = in_any_order(chain.back()->body); !verdict.empty()) return verdict;
  struct Head {
    Expr var, extent;
    LoopKind kind;
    int width;
  };
  std::map<int, Head> heads; // by id
  for (const For* f : chain) heads[f->var.id()] = {f->var, f->extent, f->kind, f->width};
  size_t next = 0;
  for (For* f : chain) {
    if (!is_named(f)) continue;
    const Head& head = heads.at(order[next++]);
    f->var = head.var;
    f->extent = head.extent;
    f->kind = head.kind;
    f->width = head.width;
  }
  for (size_t i = 0; i < chain.size(); ++i)
    for (size_t j = i; j < chain.size(); ++j)
      if (depends_on(chain[i]->extent, chain[j]->var))
        return fmt::format("the extent of {} depends on {}", chain[i]->var.name(), chain[j]->var.name());
  return check_structure(draft.body);
}

Verdict unroll(Draft& draft, LoopHandle loop) {
  // Copies of one statement that all unrolled loops around it make together. Twice the instructions of the
  // largest body that suggest_unroll proposes; compile time grows with the copies.
  constexpr int64_t kMostCopies = 1024;
  const LoopSite site = find_loop(draft, loop);
  if (!site) return no_loop(loop);
  if (site.loop().kind != LoopKind::Serial) return not_serial(site.loop());
  if (site.loop().extent.hi() > 64) return fmt::format("{} has more than 64 iterations", loop.name());
  site.loop().kind = LoopKind::Unroll;
  Verdict verdict;
  for_each_store(draft.body, [&](Store&, const std::vector<For*>& loops) {
    int64_t copies = 1;
    bool inside = false;
    for (const For* around : loops) {
      inside |= around->var == site.loop().var;
      if (around->kind == LoopKind::Unroll) copies *= std::min(around->extent.hi(), kMostCopies + 1);
      copies = std::min(copies, kMostCopies + 1);
    }
    if (inside && copies > kMostCopies)
      verdict =
          fmt::format("a statement in {} would stand there more than {} times", loop.name(), kMostCopies);
  });
  return verdict;
}

namespace {

/// The dimension in which an index depends on the variable; nothing if there is none, or more than one.
std::optional<size_t> only_dimension(const std::vector<Expr>& index, Expr var) {
  std::optional<size_t> found;
  for (size_t d = 0; d < index.size(); ++d)
    if (depends_on(index[d], var)) {
      if (found) return {};
      found = d;
    }
  return found;
}

template <class T> void move_to_end(std::vector<T>& list, size_t from) {
  std::rotate(list.begin() + static_cast<long>(from), list.begin() + static_cast<long>(from) + 1, list.end());
}

/// Makes the dimension of a register tile that lies along the lanes its last one, and rounds its size up to
/// whole vectors, so that each vector is a register of its own. If the tile already lies along the lanes of
/// other vector loops, its order stays.
void lay_tiles_along_lanes(Block& body, const For& lanes) {
  std::map<int, std::pair<BufferRef, size_t>> tiles; // by id; the dimension along the lanes
  std::set<int> settled;
  const auto see = [&](const BufferRef& buffer, const std::vector<Expr>& index, Expr var, bool chosen) {
    if (buffer->scope != Scope::Register) return;
    const auto d = only_dimension(index, var);
    if (!d) return;
    if (!chosen)
      settled.insert(buffer->id);
    else
      tiles[buffer->id] = {buffer, *d};
  };
  for_each_store(body, [&](Store& store, const std::vector<For*>& loops) {
    for (const For* loop : loops) {
      const bool chosen = loop->var == lanes.var;
      if (!chosen && loop->kind != LoopKind::Vector) continue;
      see(store.buffer, store.index, loop->var, chosen);
      ast::visit(store.value, [&](const ValueRef& value) {
        const auto* attr = std::get_if<LoadAttr>(&value->attr);
        if (attr) see(attr->buffer, attr->index, loop->var, chosen);
      });
    }
  });
  std::map<int, BufferRef> turned;
  for (auto& [id, tile] : tiles) {
    Buffer buffer = *tile.first;
    const size_t last = buffer.shape.size() - 1;
    if (settled.contains(id) && tile.second != last) continue;
    move_to_end(buffer.shape, tile.second);
    buffer.shape[last] = ceildiv(buffer.shape[last], lanes.width) * lanes.width;
    if (tile.second != last || buffer.shape[last] != tile.first->shape[last])
      turned[id] = make_buffer(std::move(buffer));
  }
  if (turned.empty()) return;
  Rewriter rewriter;
  rewriter.on_value = [&](const ValueRef& value) {
    const auto* attr = std::get_if<LoadAttr>(&value->attr);
    if (!attr || value->op != Op::Load || !turned.contains(attr->buffer->id)) return value;
    std::vector<Expr> index = attr->index;
    move_to_end(index, tiles.at(attr->buffer->id).second);
    return load(turned.at(attr->buffer->id), std::move(index), attr->guards);
  };
  rewriter.on_stmt = [&](Stmt stmt) {
    if (auto* alloc = std::get_if<Alloc>(&stmt.node)) {
      if (turned.contains(alloc->buffer->id)) alloc->buffer = turned.at(alloc->buffer->id);
    } else if (auto* store = std::get_if<Store>(&stmt.node); store && turned.contains(store->buffer->id)) {
      move_to_end(store->index, tiles.at(store->buffer->id).second);
      store->buffer = turned.at(store->buffer->id);
    }
    Block block;
    block.push_back(std::move(stmt));
    return block;
  };
  body = ast::rewrite(body, rewriter);
}

} // namespace

Verdict vectorise(Draft& draft, const Target& target, LoopHandle handle) {
  const LoopSite site = find_loop(draft, handle);
  if (!site) return no_loop(handle);
  For& loop = site.loop();
  if (loop.kind != LoopKind::Serial) return not_serial(loop);
  int lanes = 1 << 20;
  for (const Stmt& stmt : loop.body) {
    const auto* store = std::get_if<Store>(&stmt.node);
    if (!store) return fmt::format("{} is not an innermost loop", handle.name());
    if (store->scatter && computed_step(*store->scatter, loop.var) != 1)
      return "a scatter whose lanes do not lie side by side can't be vectorised: they may meet";
    if (!store->combine && !store->scatter &&
        std::none_of(store->index.begin(), store->index.end(),
                     [&](Expr e) { return depends_on(e, loop.var); }))
      return fmt::format("all lanes of {} store to one element", handle.name());
    lanes = std::min(lanes, target.lanes(store->buffer->dtype));
  }
  const int64_t extent = loop.extent.hi();
  if (extent < 2) return fmt::format("{} has a single iteration", handle.name());
  if (extent > lanes)
    return fmt::format("{} has {} iterations, a vector {} lanes", handle.name(), extent, lanes);
  if (auto verdict = sums_in_any_order(loop.body); !verdict.empty()) return verdict;
  loop.kind = LoopKind::Vector;
  loop.width = static_cast<int>(std::bit_ceil(static_cast<uint64_t>(extent)));
  const For lanes_loop{loop.var, loop.extent, loop.kind, loop.width, {}};
  lay_tiles_along_lanes(draft.body, lanes_loop);
  return {};
}

Verdict parallelise(Draft& draft, LoopHandle handle) {
  const LoopSite site = find_loop(draft, handle);
  if (!site) return no_loop(handle);
  For& loop = site.loop();
  if (loop.kind != LoopKind::Serial) return not_serial(loop);
  if (auto verdict = independent(loop); !verdict.empty()) return verdict;
  loop.kind = LoopKind::Parallel;
  return check_structure(draft.body);
}

Verdict bind(Draft& draft, const Target& target, LoopHandle handle, Level level, int64_t axis) {
  if (!target.groups) return fmt::format("{} has no work-groups", target.device);
  const LoopSite site = find_loop(draft, handle);
  if (!site) return no_loop(handle);
  For& loop = site.loop();
  if (loop.kind != LoopKind::Serial) return not_serial(loop);
  if (axis > 2) return "the axes are 0, 1 and 2";
  if (auto verdict = independent(loop); !verdict.empty()) return verdict;
  loop.width = static_cast<int>(axis);
  if (level == Level::Group) {
    loop.kind = LoopKind::Group;
    return check_structure(draft.body);
  }
  if (loop.extent.hi() > 256)
    return fmt::format("{} has more than 256 iterations, too many work-items", handle.name());
  if (site.enclosing.empty() || site.enclosing.front()->kind != LoopKind::Group)
    return fmt::format("{} is not inside a group loop", handle.name());
  loop.kind = LoopKind::Local;
  return check_structure(draft.body);
}

} // namespace lathe::search
