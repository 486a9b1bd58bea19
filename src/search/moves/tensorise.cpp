// tensorise: the innermost loops of a product become what one instruction of the target computes.
#include <algorithm>
#include <bit>

#include <fmt/format.h>

#include "ast/buffer.hpp"
#include "ast/tensor.hpp"
#include "search/moves/draft.hpp"

namespace lathe::search {

using namespace ast;

namespace {

/// The loops by these names, which must be the innermost ones around the store of `result`, in this order.
Verdict find_nest(Draft& draft, StoredHandle result, const std::vector<LoopHandle>& names,
                  std::vector<For*>& loops, Store*& store) {
  const LoopSite outermost = find_loop(draft, names[0]);
  if (!outermost) return fmt::format("there is no loop {}", names[0].name());
  const Nest nest = perfect_nest((*outermost.parent)[outermost.position]);
  loops = nest.loops;
  store = nest.store;
  if (!store || store->buffer->id != draft.id_of(result))
    return fmt::format("{} is not around one store of {}", names[0].name(), result.name());
  for (size_t i = 0; i < std::max(loops.size(), names.size()); ++i)
    if (i >= loops.size() || i >= names.size() || draft.handles.loop(*loops[i]) != names[i])
      return fmt::format("the loops in {} are not the ones named, in their order", names[0].name());
  return {};
}

/// The iterations that an instruction gives to each of the loops: rows, rows of k, columns, k. Tiles have as
/// many rows as the loops, if that number is fixed.
std::vector<int64_t> extents_of(const InstructionInfo& row, const std::vector<For*>& loops,
                                const Target& target) {
  const int64_t columns = row.n != 0 ? row.n : target.lanes(row.c);
  if (!row.is_tile()) return {columns, row.pack};
  const auto or_all = [](const For& loop, int64_t all) {
    return loop.extent.is_const() && loop.extent.value() < all ? loop.extent.value() : all;
  };
  return {or_all(*loops[0], row.m), or_all(*loops[1], row.k / row.pack), columns, row.pack};
}

/// The instruction of the target that takes these loops, full or in part.
std::optional<Instruction> fitting(const Store& store, const std::vector<For*>& loops, const Target& target) {
  const auto factors = factors_of(store);
  if (!factors) return {};
  const Expr columns = loops[loops.size() - 2]->var;
  auto [a, b] = *factors;
  if (moves_with(a, columns)) std::swap(a, b);
  for (const Instruction instruction : target.instructions) {
    const InstructionInfo& row = info(instruction);
    if (!row.is_tensor() || loops.size() != (row.is_tile() ? 4 : 2)) continue;
    const std::vector<int64_t> extents = extents_of(row, loops, target);
    if (a->dtype != row.a || b->dtype != row.b || store.buffer->dtype != row.c) continue;
    bool fits = true;
    for (size_t i = 0; i < loops.size(); ++i) fits &= loops[i]->extent.hi() <= extents[i];
    if (fits) return instruction;
  }
  return {};
}

/// Adds to `guards` what says that `var` is less than `end`, in linear terms, which passes can peel.
void add_guards(Expr var, Expr end, std::vector<Expr>& guards) {
  if (end.kind() == ExprKind::Min) {
    add_guards(var, end.lhs(), guards);
    add_guards(var, end.rhs(), guards);
  } else if (!proves_lt(var, end)) {
    guards.push_back(lt(var, end));
  }
}

/// Gives the loops the extents. What they read past their old ends is 0.
void fill_up(const std::vector<For*>& loops, const std::vector<int64_t>& extents, Store& store) {
  std::vector<std::pair<Expr, Expr>> ends; // full variable, old extent
  Substitution renewed;
  for (size_t i = 0; i < loops.size(); ++i) {
    For& loop = *loops[i];
    const Expr all = loop_var(loop.var.id(), loop.var.name(), extents[i]);
    if (!loop.extent.is_const(extents[i])) ends.emplace_back(all, loop.extent);
    renewed.emplace_back(loop.var, all);
    loop.var = all;
    loop.extent = extents[i];
    loop.kind = LoopKind::Tensor;
  }
  for (Expr& e : store.index) e = substitute(e, renewed);
  Rewriter rewriter;
  rewriter.on_value = [&](const ValueRef& value) {
    const auto* attr = std::get_if<LoadAttr>(&value->attr);
    if (!attr) return value;
    LoadAttr read = *attr;
    for (Expr& e : read.index) e = substitute(e, renewed);
    for (Expr& e : read.guards) e = substitute(e, renewed);
    for (const auto& [var, end] : ends)
      if (std::any_of(read.index.begin(), read.index.end(),
                      [&, v = var](Expr e) { return depends_on(e, v); }))
        add_guards(var, substitute(end, renewed), read.guards);
    return load(read.buffer, std::move(read.index), std::move(read.guards), read.ahead);
  };
  store.value = ast::rewrite(store.value, rewriter);
}

/// The array in registers with room for whatever the filled-up loops add to.
void make_room(Draft& draft, const Store& store) {
  Buffer buffer = *store.buffer;
  bool grows = false;
  for (size_t d = 0; d < buffer.shape.size(); ++d) {
    if (proves_lt(store.index[d], buffer.shape[d])) continue;
    buffer.shape[d] = store.index[d].hi() + 1;
    grows = true;
  }
  if (!grows) return;
  const BufferRef larger = make_buffer(std::move(buffer));
  Rewriter rewriter;
  rewriter.on_buffer = [&](const BufferRef& b) { return b->id == larger->id ? larger : b; };
  draft.body = ast::rewrite(draft.body, rewriter);
}

/// Of what is computed for a copy: the loops over columns and k, and the dimensions of the copy along them,
/// become one.
void join_lanes(Draft& draft, For& columns) {
  For& k = std::get<For>(columns.body[0].node);
  const Expr width = k.extent, lanes = columns.extent * width;
  const BufferRef copy = std::get<Store>(k.body[0].node).buffer;
  Buffer buffer = *copy;
  buffer.shape.pop_back();
  buffer.shape.back() = lanes;
  const BufferRef joined = make_buffer(std::move(buffer));
  const auto join = [&](std::vector<Expr>& index) {
    const Expr last = index.back();
    index.pop_back();
    index.back() = index.back() * width + last;
  };
  const Expr var = loop_var(columns.var.id(), columns.var.name(), lanes);
  const Substitution vars{{columns.var, floordiv(var, width)}, {k.var, mod(var, width)}};
  Block body = std::move(k.body);
  columns = For{var, lanes, LoopKind::Vector, static_cast<int>(lanes.value()), std::move(body)};
  rename(columns.body, vars);
  Store& fill = std::get<Store>(columns.body[0].node);
  join(fill.index);
  fill.buffer = joined;

  Rewriter rewriter;
  rewriter.on_value = [&](const ValueRef& value) {
    const auto* attr = std::get_if<LoadAttr>(&value->attr);
    if (!attr || attr->buffer->id != joined->id) return value;
    std::vector<Expr> index = attr->index;
    join(index);
    return load(joined, std::move(index), attr->guards, attr->ahead);
  };
  rewriter.on_stmt = [&](Stmt stmt) {
    if (auto* alloc = std::get_if<Alloc>(&stmt.node); alloc && alloc->buffer->id == joined->id)
      alloc->buffer = joined;
    Block block;
    block.push_back(std::move(stmt));
    return block;
  };
  draft.body = ast::rewrite(draft.body, rewriter);
}

/// Of a copy: the loops over columns and k become one instruction's worth of copying.
Verdict tensorise_copy(Draft& draft, const Target& target, const std::vector<For*>& loops, const Store& store,
                       StoredHandle copy) {
  for (const For* loop : loops)
    if (!loop->extent.is_const() || std::popcount(static_cast<uint64_t>(loop->extent.value())) != 1 ||
        loop->extent.value() > 16)
      return fmt::format("{} has no fixed number of iterations that is a power of 2 up to 16",
                         loop->var.name());
  if (store.combine) return fmt::format("{} is no copy", copy.name());
  if (store.value->op == Op::Load) {
    for (For* loop : loops) loop->kind = LoopKind::Tensor;
  } else {
    if (loops[0]->extent.value() * loops[1]->extent.value() > target.lanes(store.buffer->dtype))
      return fmt::format("{} has more elements than a vector has lanes", copy.name());
    const size_t dims = store.index.size();
    if (dims < 2 || store.index[dims - 2] != loops[0]->var || store.index[dims - 1] != loops[1]->var)
      return fmt::format("the loops are not along the last dimensions of {}", copy.name());
    join_lanes(draft, *loops[0]);
  }
  return {};
}

} // namespace

Verdict tensorise(Draft& draft, const Target& target, StoredHandle result,
                  const std::vector<LoopHandle>& names) {
  if (names.size() != 2 && names.size() != 4) return "an instruction takes two loops, or four";
  std::vector<For*> loops;
  Store* store = nullptr;
  if (auto verdict = find_nest(draft, result, names, loops, store); !verdict.empty()) return verdict;
  if (!target.instructions.empty() && result.part() == Part::Packed && loops.size() == 2)
    return tensorise_copy(draft, target, loops, *store, result);
  if (store->buffer->scope != Scope::Register)
    return fmt::format("{} does not lie in registers", store->buffer->name);
  const auto instruction = fitting(*store, loops, target);
  if (!instruction)
    return fmt::format("no instruction of {} computes what {} adds to {}", target.device, names[0].name(),
                       result.name());
  fill_up(loops, extents_of(info(*instruction), loops, target), *store);
  const auto product = tensor_product(*tensor_nest(*loops[0]));
  if (!product || instruction_of(*product, {*instruction}) != instruction)
    return fmt::format("the loops in {} are no rows, columns and products", names[0].name());
  make_room(draft, *store);
  return {};
}

} // namespace lathe::search
