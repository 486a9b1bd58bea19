// The move that gives a padded value's border nests of its own: border.
#include "search/moves/border.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "search/moves/draft.hpp"

namespace lathe::search {

using namespace ast;

namespace {

constexpr int64_t kLongest = 4096; // iterations of a loop, which are checked one by one

/// A condition outside of which the value is 0; nothing if the value has none.
std::optional<Expr> condition_of(const ValueRef& value) {
  if (const auto* attr = std::get_if<LoadAttr>(&value->attr); attr && !attr->guards.empty()) {
    Expr all = attr->guards[0];
    for (const Expr& guard : attr->guards) all = land(all, guard);
    return all;
  }
  if (value->op != Op::Where) return {};
  const auto* condition = std::get_if<Expr>(&value->sources[0]->attr);
  const auto* outside = std::get_if<Scalar>(&value->sources[2]->attr);
  if (!condition || !outside || *outside != Scalar::zero(value->dtype)) return {};
  return *condition;
}

/// The value with its variables replaced, and without the conditions that then always hold.
ValueRef inside_value(const ValueRef& value, const Substitution& vars) {
  Rewriter rewriter;
  rewriter.on_value = [](const ValueRef& v) -> ValueRef {
    const auto* attr = std::get_if<LoadAttr>(&v->attr);
    if (attr && !attr->guards.empty()) {
      std::vector<Expr> guards = attr->guards;
      std::erase_if(guards, [](const Expr& g) { return g.is_const(1); });
      return v->op == Op::Gather ? gather(attr->buffer, v->sources[0], std::move(guards))
                                 : load(attr->buffer, attr->index, std::move(guards), attr->ahead);
    }
    if (v->op == Op::Where)
      if (const auto* condition = std::get_if<Expr>(&v->sources[0]->attr);
          condition && condition->is_const(1))
        return v->sources[1];
    return v;
  };
  return ast::rewrite(ast::substitute(value, vars), rewriter);
}

/// The loops of `border` over the given ranges, renamed, around its store. `inside`: the store keeps its
/// value; else it stores 0.
Stmt nest_over(const Border& border, const std::vector<std::pair<int64_t, int64_t>>& ranges,
               const std::function<Expr(const For& loop, Expr extent)>& make_loop, bool inside) {
  Substitution vars;
  std::vector<For> loops;
  for (size_t d = 0; d < border.sides.size(); ++d) {
    const Expr old = border.sides[d].loop->var;
    const auto [begin, end] = ranges[d];
    if (end - begin == 1) {
      vars.emplace_back(old, Expr(begin));
      continue;
    }
    const Expr var = make_loop(*border.sides[d].loop, Expr(end - begin));
    vars.emplace_back(old, var + begin);
    loops.push_back({var, Expr(end - begin), LoopKind::Serial, 0, {}});
  }
  Store store = *border.store;
  for (Expr& e : store.index) e = substitute(e, vars);
  store.value = inside ? inside_value(store.value, vars) : constant(Scalar::zero(store.value->dtype));
  return nest(std::move(loops), std::move(store));
}

} // namespace

std::optional<Border> read_border(const Stmt& nest) {
  Border border{{}, nullptr};
  const Stmt* at = &nest;
  while (const auto* loop = std::get_if<For>(&at->node)) {
    const bool plain = loop->kind == LoopKind::Serial && loop->body.size() == 1 && loop->extent.is_const();
    if (!plain || loop->extent.value() > kLongest) return {};
    border.sides.push_back({loop, 0, loop->extent.value()});
    at = &loop->body[0];
  }
  border.store = std::get_if<Store>(&at->node);
  if (!border.store || border.store->combine || border.store->scatter) return {};
  const std::optional<Expr> condition = condition_of(border.store->value);
  if (!condition) return {};
  bool smaller = false;
  Substitution inside;
  for (Border::Side& side : border.sides) {
    const auto fails_at = [&](int64_t i) {
      return substitute(*condition, {{side.loop->var, Expr(i)}}).is_const(0);
    };
    while (side.begin < side.end && fails_at(side.begin)) ++side.begin;
    while (side.begin < side.end && fails_at(side.end - 1)) --side.end;
    if (side.begin == side.end) return {};
    smaller |= side.end - side.begin < side.loop->extent.value();
    inside.emplace_back(side.loop->var,
                        loop_var(side.loop->var.id(), side.loop->var.name(), side.end - side.begin) +
                            side.begin);
  }
  if (!smaller || !substitute(*condition, inside).is_const(1)) return {};
  return border;
}

Verdict border(Draft& draft, StageHandle stage) {
  const int stored = draft.id_of(stage.buffer());
  for (size_t i = 0; i < draft.body.size(); ++i) {
    const std::optional<Border> found = read_border(draft.body[i]);
    if (!found || found->store->buffer->id != stored) continue;
    Block made;
    int count = 0;
    // Along each axis, one slab before and one behind the box. Along the earlier axes a slab spans only the
    // box.
    std::vector<std::pair<int64_t, int64_t>> ranges;
    for (const Border::Side& side : found->sides) ranges.emplace_back(0, side.loop->extent.value());
    LoopMaker loops(draft, stage.index);
    const auto add = [&](bool inside) {
      const auto make_loop = [&](const For& loop, Expr extent) {
        const LoopHandle whole = draft.handles.loop(loop);
        return loops.make(inside ? whole : whole.in_border(count), extent);
      };
      made.push_back(nest_over(*found, ranges, make_loop, inside));
      ++count;
    };
    for (size_t d = 0; d < ranges.size(); ++d) {
      const Border::Side& side = found->sides[d];
      const int64_t extent = ranges[d].second;
      if (side.begin > 0) {
        ranges[d] = {0, side.begin};
        add(false);
      }
      if (side.end < extent) {
        ranges[d] = {side.end, extent};
        add(false);
      }
      ranges[d] = {side.begin, side.end};
    }
    add(true);
    draft.body.erase(draft.body.begin() + static_cast<long>(i));
    draft.body.insert(draft.body.begin() + static_cast<long>(i), std::make_move_iterator(made.begin()),
                      std::make_move_iterator(made.end()));
    return check_structure(draft.body);
  }
  return fmt::format("no plain nest of {} is 0 outside of a box", stage.buffer().name());
}

} // namespace lathe::search
