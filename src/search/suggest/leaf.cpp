#include "search/suggest/leaf.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <functional>

#include "search/moves/draft.hpp"

namespace lathe::search {

namespace {

/// Another store follows in the same straight-line body: one of the same stage (a transform has many), or the
/// loop holds nothing but stores.
bool goes_on(const Features& f, int store) {
  const AccessInfo& here = f.accesses[store];
  if (here.loop < 0 || f.loops[here.loop].end_access == store + 1) return false;
  const ast::Block& body = f.loops[here.loop].loop->body;
  if (std::all_of(body.begin(), body.end(),
                  [](const ast::Stmt& stmt) { return std::holds_alternative<ast::Store>(stmt.node); }))
    return true;
  for (int a = store + 1; a < static_cast<int>(f.accesses.size()); ++a) {
    const AccessInfo& next = f.accesses[a];
    if (next.loop != here.loop) return false;
    if (next.store) return next.buffer == here.buffer && !next.combine && !here.combine;
  }
  return false;
}

} // namespace

std::vector<Leaf> leaves_of(const Features& f) {
  std::vector<Leaf> leaves;
  int first = 0;
  for (int a = 0; a < static_cast<int>(f.accesses.size()); ++a) {
    const AccessInfo& store = f.accesses[a];
    if (!store.store || goes_on(f, a)) continue;
    Leaf leaf{a,     first, {}, 0, -1, f.buffers[store.buffer].buffer->name, store.combine, store.random,
              false, false};
    for (int l = store.loop; l >= 0; l = f.loops[l].parent) {
      leaf.loops.insert(leaf.loops.begin(), l);
      leaf.vectorised |= kind_of(f, l) == ast::LoopKind::Vector;
    }
    for (int before = first; before < a; ++before) leaf.merged |= f.accesses[before].store;
    leaf.own = leaf.loops.size();
    while (leaf.own > 0) {
      const LoopInfo& l = f.loops[leaf.loops[leaf.own - 1]];
      const bool alone = l.first_access == first && l.end_access == a + 1;
      const bool innermost = leaf.own == leaf.loops.size();
      const bool perfect =
          innermost || (l.loop->body.size() == 1 && std::holds_alternative<ast::For>(l.loop->body[0].node));
      if (!alone || !perfect) break;
      --leaf.own;
    }
    leaf.stage = stage_of_name(leaf.buffer);
    leaves.push_back(std::move(leaf));
    first = a + 1;
  }
  return leaves;
}

int lanes_of(const Features& f, const Leaf& leaf, const Target& target) {
  int bytes = 1;
  for (int a = leaf.first; a <= leaf.store; ++a)
    bytes = std::max(bytes, f.buffers[f.accesses[a].buffer].element_bytes);
  return std::max(1, target.vector_bytes / bytes);
}

int next_scratch(const ast::Kernel& kernel, int stage) {
  const std::string prefix = fmt::format("t{}.", stage);
  int next = 0;
  ast::visit(kernel.body, [&](const ast::Stmt& stmt, const auto&) {
    const auto* alloc = std::get_if<ast::Alloc>(&stmt.node);
    if (!alloc || alloc->buffer->name.compare(0, prefix.size(), prefix) != 0) return;
    next = std::max(next, std::atoi(alloc->buffer->name.c_str() + prefix.size() + 1) + 1);
  });
  return next;
}

} // namespace lathe::search
