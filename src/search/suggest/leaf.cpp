#include "search/suggest/leaf.hpp"

#include <algorithm>
#include <variant>

namespace lathe::search {

namespace {

/// Whether another store follows in the same straight-line body: one of the same stage (a transform has
/// many), or any store of a loop that holds nothing but stores.
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

std::vector<Leaf> leaves_of(const lower::Program& program, const KernelPlan& kernel, const Features& f) {
  std::vector<Leaf> leaves;
  int first = 0;
  for (int a = 0; a < static_cast<int>(f.accesses.size()); ++a) {
    const AccessInfo& store = f.accesses[a];
    if (!store.store || goes_on(f, a)) continue;
    const BufferHandle result = handle_of(program, kernel.handles, *f.buffers[store.buffer].buffer);
    Leaf leaf{a, first, {}, 0, result, store.combine, store.random, false, false};
    for (int l = store.loop; l >= 0; l = f.loops[l].parent) {
      leaf.loops.insert(leaf.loops.begin(), l);
      leaf.vectorised |= kind_of(f, l) == ast::LoopKind::Vector || kind_of(f, l) == ast::LoopKind::Tensor;
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

int elementwise_lanes_of(const Features& f, const Leaf& leaf, const Target& target) {
  int lanes = lanes_of(f, leaf, target);
  const auto first = f.accesses.begin() + leaf.first, end = f.accesses.begin() + leaf.store;
  const bool shuffles = target.byte_table == 16 && !leaf.combine &&
                        std::any_of(first, end, [](const AccessInfo& access) { return access.in_registers; });
  int64_t longest_loop = 0;
  for (const int l : leaf.loops) longest_loop = std::max(longest_loop, longest(f, l));
  while (shuffles && lanes < target.vector_bytes && lanes < longest_loop) lanes *= 2;
  return lanes;
}

} // namespace lathe::search
