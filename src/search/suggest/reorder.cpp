// Proposes loop orders: the contiguous loop innermost, and square blocks where two accesses of one store are
// contiguous along different loops.
#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "search/suggest/suggest.hpp"

namespace lathe::search {

std::vector<Proposal> suggest_reorder(const SuggestContext& c) {
  const Features& f = c.features;
  std::vector<Proposal> proposals;
  for (const Leaf& leaf : c.leaves()) {
    if (leaf.random || leaf.vectorised || leaf.loops.size() < leaf.own + 2) continue;
    // The loop along which the store is contiguous, and another along which a load is.
    int stored = -1, loaded = -1;
    bool serial = true;
    for (size_t i = leaf.own; i < leaf.loops.size(); ++i) {
      const int l = leaf.loops[i];
      serial &= is_serial(f, l);
      if (std::abs(f.stride(f.accesses[leaf.store], l)) == 1) stored = l;
    }
    if (!serial) continue;
    for (int a = leaf.first; a < leaf.store; ++a)
      for (size_t i = leaf.own; i < leaf.loops.size(); ++i)
        if (leaf.loops[i] != stored && std::abs(f.stride(f.accesses[a], leaf.loops[i])) == 1 &&
            (stored < 0 || std::abs(f.stride(f.accesses[a], stored)) > 1))
          loaded = leaf.loops[i];
    const auto others = [&](int a, int b) {
      std::vector<LoopHandle> loops;
      for (size_t i = leaf.own; i < leaf.loops.size(); ++i)
        if (leaf.loops[i] != a && leaf.loops[i] != b) loops.push_back(c.loop(leaf.loops[i]));
      return loops;
    };
    if (stored >= 0 && stored != leaf.loops.back()) {
      Script script(c.kernel);
      std::vector<LoopHandle> order = others(stored, stored);
      order.push_back(c.loop(stored));
      script.reorder(order);
      proposals.push_back({script.take(), "store " + leaf.result.name() + " contiguously"});
    }
    if (stored < 0 || loaded < 0) continue;
    if (leaf.combine) continue;
    const int lanes = elementwise_lanes_of(f, leaf, c.target);
    for (int64_t across : c.thorough ? std::vector<int64_t>{8, 16, 32, 64} : std::vector<int64_t>{16, 64}) {
      if (longest(f, stored) <= lanes || longest(f, loaded) <= across || lanes < 2) continue;
      for (bool loaded_outside : {true, false}) {
        Script script(c.kernel);
        const Halves s = script.split(c.loop(stored), lanes), l = script.split(c.loop(loaded), across);
        std::vector<LoopHandle> order = others(stored, loaded);
        order.push_back(loaded_outside ? l.outer : s.outer);
        order.push_back(loaded_outside ? s.outer : l.outer);
        order.insert(order.end(), {l.inner, s.inner});
        script.reorder(order);
        script.vectorise(s.inner);
        proposals.push_back(
            {script.take(), fmt::format("blocks of {} x {} of {}", across, lanes, leaf.result.name())});
      }
    }
  }
  return proposals;
}

} // namespace lathe::search
