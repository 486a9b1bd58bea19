// Proposes tiles transposed in registers, where a nest reads along one loop and stores along another. A
// square of vectors is read row by row and stored column by column, so that both are contiguous.
#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "search/suggest/suggest.hpp"

namespace lathe::search {
namespace {

// A square of more lanes, of bytes, would not fit the registers.
constexpr int kMostLanes = 16;

/// The leaf's own loop along which access `a` moves by one element; -1: none.
int contiguous_loop(const Features& f, const Leaf& leaf, int a) {
  for (size_t i = leaf.own; i < leaf.loops.size(); ++i)
    if (f.stride(f.accesses[a], leaf.loops[i]) == 1) return leaf.loops[i];
  return -1;
}

/// Numbers of the buffers that are read contiguously along `loaded`, not along `stored`. Empty if a read is
/// contiguous along neither, or a buffer is read twice.
std::vector<int> across(const Features& f, const Leaf& leaf, int stored, int loaded) {
  std::vector<int> buffers;
  for (int a = leaf.first; a < leaf.store; ++a) {
    const AccessInfo& access = f.accesses[a];
    if (std::abs(f.stride(access, stored)) <= 1) continue;
    const bool twice = std::find(buffers.begin(), buffers.end(), access.buffer) != buffers.end();
    if (f.stride(access, loaded) != 1 || twice) return {};
    buffers.push_back(access.buffer);
  }
  return buffers;
}

/// Proposes squares of `lanes` vectors: `count` of them along `stored`, then the next along `loaded`.
Proposal tiles(const SuggestContext& c, const Leaf& leaf, int stored, int loaded,
               const std::vector<int>& buffers, int64_t lanes, int64_t count) {
  Script script(c.kernel);
  Halves l{{}, c.loop(loaded)};
  if (longest(c.features, loaded) > lanes) l = script.split(l.inner, lanes);
  const Halves s = script.split(c.loop(stored), lanes * count);
  LoopHandle column = s.inner, squares;
  if (count > 1) {
    const Halves halves = script.split(s.inner, lanes);
    squares = halves.outer;
    column = halves.inner;
  }
  std::vector<LoopHandle> order;
  for (size_t i = leaf.own; i < leaf.loops.size(); ++i)
    if (leaf.loops[i] != stored && leaf.loops[i] != loaded) order.push_back(c.loop(leaf.loops[i]));
  order.push_back(s.outer);
  if (l.outer) order.push_back(l.outer);
  if (squares) order.push_back(squares);
  const LoopHandle around = order.back();
  order.insert(order.end(), {column, l.inner});
  script.reorder(order);
  for (const int buffer : buffers) {
    const PackedCopy copy = script.pack(leaf.result, c.buffer(buffer), around, ast::Scope::Register);
    script.vectorise(copy.filling(1));
    script.unroll(copy.filling(0));
  }
  script.reorder({l.inner, column});
  script.vectorise(column);
  script.unroll(l.inner);
  return {script.take(),
          fmt::format("transpose {} in registers, {} squares a row", leaf.result.name(), count)};
}

} // namespace

std::vector<Proposal> suggest_transpose(const SuggestContext& c) {
  const Features& f = c.features;
  std::vector<Proposal> proposals;
  for (const Leaf& leaf : c.leaves()) {
    if (leaf.random || leaf.merged || leaf.combine || leaf.vectorised) continue;
    if (!std::all_of(leaf.loops.begin() + static_cast<long>(leaf.own), leaf.loops.end(),
                     [&](int l) { return is_serial(f, l); }))
      continue;
    const int stored = contiguous_loop(f, leaf, leaf.store);
    const int lanes = std::min(lanes_of(f, leaf, c.target), kMostLanes);
    if (stored < 0 || lanes < 2) continue;
    for (int a = leaf.first; a < leaf.store; ++a) {
      const int loaded = contiguous_loop(f, leaf, a);
      if (loaded < 0 || loaded == stored) continue;
      const auto buffers = across(f, leaf, stored, loaded);
      if (buffers.empty() || 2 * longest(f, loaded) <= lanes) continue;
      for (int64_t count : c.thorough ? std::vector<int64_t>{1, 2, 4, 8} : std::vector<int64_t>{1, 4})
        if (longest(f, stored) > lanes * count)
          proposals.push_back(tiles(c, leaf, stored, loaded, buffers, lanes, count));
      break;
    }
  }
  return proposals;
}

} // namespace lathe::search
