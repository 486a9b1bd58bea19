// Proposes vectors along the contiguous loop of each store that has none yet. A reduction along that loop
// keeps one partial result per lane.
#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "ast/machine/access.hpp"
#include "search/suggest/suggest.hpp"

namespace lathe::search {
namespace {

/// Memory instructions for one vector along `loop`, per element.
double price(const Features& f, const Leaf& leaf, int loop, int lanes) {
  double instructions = 0;
  for (int a = leaf.first; a <= leaf.store; ++a) {
    const AccessInfo& access = f.accesses[a];
    const double stride = std::abs(f.stride(access, loop));
    const bool scratch = f.buffers[access.buffer].buffer->scope == ast::Scope::Register;
    if (access.random && !(access.store && stride == 1))
      instructions += lanes;
    else if (stride == 0)
      instructions += 0.2;
    else if (stride == 1)
      instructions += scratch ? 0.1 : 1;
    else
      instructions += lanes;
  }
  const double filled = std::min<double>(lanes, static_cast<double>(longest(f, loop)));
  return (instructions + 1) / filled;
}

/// Whether the lanes of a scatter that lie side by side can be one store.
bool stores_rows(const Features& f, const Leaf& leaf, const Target& target) {
  const DType dtype = f.buffers[f.accesses[leaf.store].buffer].buffer->dtype;
  return target.device == "cpu" && ast::masks_loads(target.vector_bytes, dtype);
}

int best_loop(const Features& f, const Leaf& leaf, int lanes) {
  int best = -1;
  double least = 0;
  for (size_t i = leaf.loops.size(); i-- > leaf.own;) {
    const int l = leaf.loops[i];
    if (!is_serial(f, l) || longest(f, l) < 2) continue;
    if (!leaf.combine && f.stride(f.accesses[leaf.store], l) == 0) continue;
    if (leaf.random && (f.stride(f.accesses[leaf.store], l) != 1 || l != leaf.loops.back())) continue;
    if (std::any_of(f.accesses.begin() + leaf.first, f.accesses.begin() + leaf.store,
                    [&](const AccessInfo& a) { return a.store && f.stride(a, l) == 0; }))
      continue;
    const double p = price(f, leaf, l, lanes);
    if (best < 0 || p < least * 0.99) {
      best = l;
      least = p;
    }
  }
  return best;
}

/// Keeps, around a loop, one partial result for each lane of `vector` and each iteration of `copies`, if
/// there is such a loop.
void partial_sums(const Leaf& leaf, LoopHandle around, LoopHandle copies, LoopHandle vector, Script& script) {
  std::vector<LoopHandle> partial;
  if (copies) partial.push_back(copies);
  partial.push_back(vector);
  const Accumulator copy = script.accumulate(leaf.result, around, partial);
  const int last = static_cast<int>(partial.size()) - 1;
  script.vectorise(copy.setting(last));
  script.vectorise(copy.summing(last));
  if (copies) {
    script.unroll(copy.setting(0));
    script.unroll(copy.summing(0));
  }
}

/// Proposes a long reduction in a few parts side by side. Each part is a stream of its own. Several streams
/// reach more of the memory's bandwidth than one, whose prefetcher stops at the end of each page.
void in_parts(const SuggestContext& c, const Leaf& leaf, std::vector<Proposal>& out) {
  constexpr int64_t kLongest = 1 << 17; // elements up to which one stream is as fast
  const Features& f = c.features;
  if (!leaf.combine || leaf.random || leaf.merged || leaf.vectorised) return;
  if (leaf.loops.empty() || leaf.loops.size() == leaf.own) return;
  const int along = leaf.loops.back();
  const int lanes = lanes_of(f, leaf, c.target);
  const int64_t extent = longest(f, along);
  if (!is_serial(f, along) || f.stride(f.accesses[leaf.store], along) != 0 || lanes < 2) return;
  if (extent <= kLongest || !f.loops[along].loop->extent.is_const() || leaf.first == leaf.store) return;
  for (int a = leaf.first; a < leaf.store; ++a)
    if (f.stride(f.accesses[a], along) != 1) return;
  for (const int64_t parts : {4, 8}) {
    if (extent % (parts * lanes) != 0) continue;
    Script script(c.kernel);
    const Halves part = script.split(c.loop(along), extent / parts);
    const Halves vector = script.split(part.inner, lanes);
    script.reorder({vector.outer, part.outer, vector.inner});
    partial_sums(leaf, vector.outer, part.outer, vector.inner, script);
    script.vectorise(vector.inner);
    script.unroll(part.outer);
    out.push_back({script.take(), fmt::format("in {} parts side by side", parts)});
  }
}

/// Adds moves that vectorise one leaf along the loop where its accesses are contiguous, `unroll` vectors an
/// iteration. A reduction gets as many partial results. False if none of the leaf's own loops fits.
bool vectorise_leaf(const SuggestContext& c, const Leaf& leaf, int unroll, Script& script) {
  const Features& f = c.features;
  const int lanes = elementwise_lanes_of(f, leaf, c.target);
  if (leaf.vectorised || lanes < 2 || (leaf.random && !stores_rows(f, leaf, c.target))) return false;
  const int along = best_loop(f, leaf, lanes);
  if (along < 0) return false;
  const bool reducing = f.stride(f.accesses[leaf.store], along) == 0;
  const int64_t extent = longest(f, along);
  while (unroll > 1 && extent <= int64_t{lanes} * unroll) unroll /= 2;
  LoopHandle vector = c.loop(along), outer, copies;
  // Loops inside the vector loop have to go outside of it.
  const bool innermost = along == leaf.loops.back();
  if (extent > lanes) {
    Halves halves = script.split(vector, int64_t{lanes} * unroll);
    outer = halves.outer;
    if (unroll > 1) {
      halves = script.split(halves.inner, lanes);
      copies = halves.outer;
    }
    vector = halves.inner;
  }
  if (!innermost) {
    std::vector<LoopHandle> order;
    for (size_t i = leaf.own; i < leaf.loops.size(); ++i) {
      const int l = leaf.loops[i];
      if (l != along)
        order.push_back(c.loop(l));
      else if (outer)
        order.push_back(outer);
    }
    if (copies) order.push_back(copies);
    order.push_back(vector);
    script.reorder(order);
  }
  if (reducing && outer && innermost && !leaf.merged &&
      (f.buffers[f.accesses[leaf.store].buffer].buffer->scope != ast::Scope::Register ||
       c.target.device != "cpu")) {
    // The reducing loops directly around it share the partial results.
    LoopHandle around = outer;
    for (size_t i = leaf.loops.size() - 1; i-- > leaf.own;) {
      if (!is_serial(f, leaf.loops[i]) || f.stride(f.accesses[leaf.store], leaf.loops[i]) != 0) break;
      around = c.loop(leaf.loops[i]);
    }
    partial_sums(leaf, around, copies, vector, script);
  }
  script.vectorise(vector);
  if (copies) script.unroll(copies);
  return true;
}

} // namespace

std::vector<Proposal> suggest_vectorise(const SuggestContext& c) {
  std::vector<Proposal> proposals;
  const std::vector<Leaf> leaves = c.leaves();
  const std::vector<int> unrolls = c.thorough ? std::vector<int>{1, 2, 4, 8} : std::vector<int>{1, 4};
  for (int unroll : unrolls) {
    // All stores at once, each along its own best loop.
    Script all(c.kernel);
    // A reduction needs several chains to hide the latency of its combine; a plain store doesn't.
    for (const Leaf& leaf : leaves) vectorise_leaf(c, leaf, unroll, all);
    if (!all.empty()) proposals.push_back({all.take(), fmt::format("vectors of {} in every nest", unroll)});
    if (leaves.size() < 2 || !c.thorough) continue;
    for (const Leaf& leaf : leaves) {
      Script one(c.kernel);
      if (vectorise_leaf(c, leaf, unroll, one))
        proposals.push_back({one.take(), fmt::format("vectors of {} for {}", unroll, leaf.result.name())});
    }
  }
  for (const Leaf& leaf : leaves) in_parts(c, leaf, proposals);
  return proposals;
}

} // namespace lathe::search
