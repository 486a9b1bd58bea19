// Vectors along the contiguous loop of each store that has none yet; reductions along that loop keep one
// partial result per lane.
#include <algorithm>
#include <cmath>

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
    if (access.random)
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

int best_loop(const Features& f, const Leaf& leaf, int lanes) {
  int best = -1;
  double least = 0;
  for (size_t i = leaf.loops.size(); i-- > leaf.own;) {
    const int l = leaf.loops[i];
    if (!is_serial(f, l) || longest(f, l) < 2) continue;
    if (!leaf.combine && f.stride(f.accesses[leaf.store], l) == 0) continue;
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

} // namespace

bool vectorise_leaf(const SuggestContext& c, const Leaf& leaf, int unroll, int scratch,
                    std::vector<Move>& out) {
  const Features& f = c.features;
  const int lanes = lanes_of(f, leaf, c.target);
  if (leaf.vectorised || leaf.random || lanes < 2) return false;
  const int along = best_loop(f, leaf, lanes);
  if (along < 0) return false;
  const bool reducing = f.stride(f.accesses[leaf.store], along) == 0;
  const int64_t extent = longest(f, along);
  while (unroll > 1 && extent <= int64_t{lanes} * unroll) unroll /= 2;
  std::string vector = loop_name(f, along), outer, copies;
  // What follows the vector loop inwards has to go outside of it.
  const bool innermost = along == leaf.loops.back();
  if (extent > lanes) {
    if (unroll > 1) {
      out.push_back(move_split(vector, int64_t{lanes} * unroll));
      outer = vector + ".o";
      copies = vector + ".i.o";
      out.push_back(move_split(vector + ".i", lanes));
      vector += ".i.i";
    } else {
      out.push_back(move_split(vector, lanes));
      outer = vector + ".o";
      vector += ".i";
    }
  }
  if (!innermost) {
    std::vector<std::string> order;
    for (size_t i = leaf.own; i < leaf.loops.size(); ++i) {
      const int l = leaf.loops[i];
      if (l == along) {
        if (!outer.empty()) order.push_back(outer);
      } else {
        order.push_back(loop_name(f, l));
      }
    }
    if (!copies.empty()) order.push_back(copies);
    order.push_back(vector);
    out.push_back(move_reorder(order));
  }
  if (reducing && !outer.empty() && innermost && !leaf.merged &&
      (f.buffers[f.accesses[leaf.store].buffer].buffer->scope != ast::Scope::Register ||
       c.target.device != "cpu")) {
    // The reducing loops next to it, outwards, share the partial results.
    std::string around = outer;
    for (size_t i = leaf.loops.size() - 1; i-- > leaf.own;) {
      if (!is_serial(f, leaf.loops[i]) || f.stride(f.accesses[leaf.store], leaf.loops[i]) != 0) break;
      around = loop_name(f, leaf.loops[i]);
    }
    std::vector<std::string> partial;
    if (!copies.empty()) partial.push_back(copies);
    partial.push_back(vector);
    out.push_back(move_accumulate(leaf.buffer, around, partial));
    const std::string copy = leaf.buffer + ".a" + std::to_string(scratch);
    const std::string last = std::to_string(partial.size() - 1);
    out.push_back(move_vectorise(copy + ".z" + last));
    out.push_back(move_vectorise(copy + ".q" + last));
    if (!copies.empty()) {
      out.push_back(move_unroll(copy + ".z0"));
      out.push_back(move_unroll(copy + ".q0"));
    }
  }
  out.push_back(move_vectorise(vector));
  if (!copies.empty()) out.push_back(move_unroll(copies));
  return true;
}

std::vector<Proposal> suggest_vectorise(const SuggestContext& c) {
  std::vector<Proposal> proposals;
  const std::vector<Leaf> leaves = leaves_of(c.features);
  const std::vector<int> unrolls = c.thorough ? std::vector<int>{1, 2, 4, 8} : std::vector<int>{1, 4};
  for (int unroll : unrolls) {
    // All stores at once, each in its own best way.
    Proposal all{{}, "vectors of " + std::to_string(unroll) + " in every nest"};
    std::vector<std::pair<int, int>> scratch;
    for (const Leaf& leaf : leaves) {
      auto it =
          std::find_if(scratch.begin(), scratch.end(), [&](const auto& s) { return s.first == leaf.stage; });
      if (it == scratch.end()) {
        scratch.emplace_back(leaf.stage, leaf.stage < 0 ? 0 : next_scratch(c.kernel.kernel, leaf.stage));
        it = scratch.end() - 1;
      }
      // A reduction needs several chains to hide the latency of its combine; a plain store doesn't.
      const size_t before = all.moves.size();
      if (!vectorise_leaf(c, leaf, unroll, it->second, all.moves)) all.moves.resize(before);
      for (size_t i = before; i < all.moves.size(); ++i)
        it->second += all.moves[i].kind == MoveKind::Accumulate;
    }
    if (!all.moves.empty()) proposals.push_back(all);
    if (leaves.size() < 2 || !c.thorough) continue;
    for (const Leaf& leaf : leaves) {
      Proposal one{{}, "vectors of " + std::to_string(unroll) + " for " + leaf.buffer};
      if (vectorise_leaf(c, leaf, unroll, leaf.stage < 0 ? 0 : next_scratch(c.kernel.kernel, leaf.stage),
                         one.moves))
        proposals.push_back(std::move(one));
    }
  }
  return proposals;
}

} // namespace lathe::search
