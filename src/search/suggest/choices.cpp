// Proposes to unroll a short loop in which conditions choose what is computed, such as one over the parts of
// a stack, inside a vector loop. Each part is then computed where it is stored, and what parts have in common
// once.
#include <algorithm>

#include <fmt/format.h>

#include "ast/values.hpp"
#include "search/suggest/suggest.hpp"

namespace lathe::search {
namespace {

constexpr int64_t kMostParts = 8;

/// Whether the store reads something only in some iterations of the loop.
bool chooses(const ast::Store& store, Expr var) {
  bool found = false;
  ast::visit(store.value, [&](const ast::ValueRef& value) {
    if (const auto* attr = std::get_if<ast::LoadAttr>(&value->attr))
      found |=
          std::any_of(attr->guards.begin(), attr->guards.end(), [&](Expr g) { return depends_on(g, var); });
  });
  return found;
}

/// Two of the leaf's own loops, as indices in Features::loops; -1: none.
struct Loops {
  int parts = -1, along = -1; // over the parts, and the one to make vectors of
};

Loops loops_of(const Features& f, const Leaf& leaf) {
  Loops loops;
  const ast::Block& body = f.loops[leaf.loops.back()].loop->body;
  const auto* store = body.size() == 1 ? std::get_if<ast::Store>(&body[0].node) : nullptr;
  if (!store) return loops;
  for (size_t i = leaf.own; i < leaf.loops.size(); ++i) {
    const int l = leaf.loops[i];
    if (!is_serial(f, l)) return {};
    if (loops.parts < 0 && longest(f, l) <= kMostParts && chooses(*store, f.loops[l].loop->var))
      loops.parts = l;
    else if (loops.along < 0 || f.stride(f.accesses[leaf.store], l) == 1)
      loops.along = l;
  }
  return loops;
}

} // namespace

std::vector<Proposal> suggest_choices(const SuggestContext& c) {
  const Features& f = c.features;
  std::vector<Proposal> proposals;
  for (const Leaf& leaf : c.leaves()) {
    if (leaf.combine || leaf.merged || leaf.random || leaf.vectorised || leaf.loops.empty()) continue;
    const Loops loops = loops_of(f, leaf);
    const int lanes = lanes_of(f, leaf, c.target);
    if (loops.parts < 0 || loops.along < 0 || lanes < 2) continue;
    Script script(c.kernel);
    LoopHandle vector = c.loop(loops.along), outer;
    if (longest(f, loops.along) > lanes) {
      const Halves halves = script.split(vector, lanes);
      outer = halves.outer;
      vector = halves.inner;
    }
    std::vector<LoopHandle> order;
    for (size_t i = leaf.own; i < leaf.loops.size(); ++i) {
      const int l = leaf.loops[i];
      if (l == loops.along && outer) order.push_back(outer);
      if (l != loops.along && l != loops.parts) order.push_back(c.loop(l));
    }
    order.insert(order.end(), {c.loop(loops.parts), vector});
    script.reorder(order);
    script.vectorise(vector);
    script.unroll(c.loop(loops.parts));
    proposals.push_back({script.take(), fmt::format("each part of {} in its own store", leaf.result.name())});
  }
  return proposals;
}

} // namespace lathe::search
