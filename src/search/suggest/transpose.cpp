// Tiles transposed in registers: where a nest reads along one loop and stores along another, a square of
// vectors is read row by row and stored column by column, so that both are contiguous.
#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "search/suggest/suggest.hpp"

namespace lathe::search {
namespace {

/// The loop along which `a` moves by one element, among the leaf's own; -1: none.
int contiguous_loop(const Features& f, const Leaf& leaf, int a) {
  for (size_t i = leaf.own; i < leaf.loops.size(); ++i)
    if (f.stride(f.accesses[a], leaf.loops[i]) == 1) return leaf.loops[i];
  return -1;
}

/// Buffers that are read along `loaded` and not along `stored`; empty if others are scattered along both.
std::vector<std::string> across(const Features& f, const Leaf& leaf, int stored, int loaded) {
  std::vector<std::string> names;
  for (int a = leaf.first; a < leaf.store; ++a) {
    const AccessInfo& access = f.accesses[a];
    if (std::abs(f.stride(access, stored)) <= 1) continue;
    const std::string& name = f.buffers[access.buffer].buffer->name;
    const bool twice = std::find(names.begin(), names.end(), name) != names.end();
    if (f.stride(access, loaded) != 1 || twice) return {};
    names.push_back(name);
  }
  return names;
}

/// Squares of `lanes` side by side along `stored`, `count` of them before the next along `loaded`.
Proposal tiles(const SuggestContext& c, const Leaf& leaf, int stored, int loaded,
               const std::vector<std::string>& buffers, int64_t lanes, int64_t count) {
  const Features& f = c.features;
  const std::string s = loop_name(f, stored), l = loop_name(f, loaded);
  Proposal p{{}, fmt::format("transpose {} in registers, {} squares a row", leaf.buffer, count)};
  std::string column = s + ".i";
  p.moves.push_back(move_split(l, lanes));
  p.moves.push_back(move_split(s, lanes * count));
  if (count > 1) {
    p.moves.push_back(move_split(s + ".i", lanes));
    column = s + ".i.i";
  }
  std::vector<std::string> order;
  for (size_t i = leaf.own; i < leaf.loops.size(); ++i)
    if (leaf.loops[i] != stored && leaf.loops[i] != loaded) order.push_back(loop_name(f, leaf.loops[i]));
  order.insert(order.end(), {s + ".o", l + ".o"});
  if (count > 1) order.push_back(s + ".i.o");
  const std::string around = order.back();
  order.insert(order.end(), {column, l + ".i"});
  p.moves.push_back(move_reorder(order));
  int scratch = next_scratch(c.kernel.kernel, leaf.stage);
  for (const std::string& buffer : buffers) {
    const std::string copy = fmt::format("t{}.p{}", leaf.stage, scratch++);
    p.moves.push_back(move_pack(leaf.buffer, buffer, around, "register"));
    p.moves.push_back(move_vectorise(copy + ".c1"));
    p.moves.push_back(move_unroll(copy + ".c0"));
  }
  p.moves.push_back(move_reorder({l + ".i", column}));
  p.moves.push_back(move_vectorise(column));
  p.moves.push_back(move_unroll(l + ".i"));
  return p;
}

} // namespace

std::vector<Proposal> suggest_transpose(const SuggestContext& c) {
  const Features& f = c.features;
  std::vector<Proposal> proposals;
  for (const Leaf& leaf : leaves_of(f)) {
    if (leaf.random || leaf.merged || leaf.combine || leaf.vectorised || leaf.stage < 0) continue;
    if (!std::all_of(leaf.loops.begin() + static_cast<long>(leaf.own), leaf.loops.end(),
                     [&](int l) { return is_serial(f, l); }))
      continue;
    const int stored = contiguous_loop(f, leaf, leaf.store), lanes = lanes_of(f, leaf, c.target);
    if (stored < 0 || lanes < 2) continue;
    for (int a = leaf.first; a < leaf.store; ++a) {
      const int loaded = contiguous_loop(f, leaf, a);
      if (loaded < 0 || loaded == stored) continue;
      const auto buffers = across(f, leaf, stored, loaded);
      if (buffers.empty() || longest(f, loaded) <= lanes) continue;
      for (int64_t count : c.thorough ? std::vector<int64_t>{1, 2, 4, 8} : std::vector<int64_t>{1, 4})
        if (longest(f, stored) > lanes * count)
          proposals.push_back(tiles(c, leaf, stored, loaded, buffers, lanes, count));
      break;
    }
  }
  return proposals;
}

} // namespace lathe::search
