// Loop orders: the contiguous loop innermost, and square blocks where two accesses of one store are
// contiguous along different loops.
#include <algorithm>
#include <cmath>

#include "search/suggest/suggest.hpp"

namespace lathe::search {

std::vector<Proposal> suggest_reorder(const SuggestContext& c) {
  const Features& f = c.features;
  std::vector<Proposal> proposals;
  for (const Leaf& leaf : leaves_of(f)) {
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
    const auto order_with_last = [&](int last) {
      std::vector<std::string> order;
      for (size_t i = leaf.own; i < leaf.loops.size(); ++i)
        if (leaf.loops[i] != last) order.push_back(loop_name(f, leaf.loops[i]));
      order.push_back(loop_name(f, last));
      return order;
    };
    if (stored >= 0 && stored != leaf.loops.back())
      proposals.push_back(
          {{move_reorder(order_with_last(stored))}, "store " + leaf.buffer + " contiguously"});
    if (stored < 0 || loaded < 0) continue;
    if (leaf.combine) continue;
    const int lanes = lanes_of(f, leaf, c.target);
    const std::string s = loop_name(f, stored), l = loop_name(f, loaded);
    for (int64_t across : c.thorough ? std::vector<int64_t>{8, 16, 32, 64} : std::vector<int64_t>{16, 64}) {
      if (longest(f, stored) <= lanes || longest(f, loaded) <= across || lanes < 2) continue;
      for (bool loaded_outside : {true, false}) {
        Proposal p{
            {}, "blocks of " + std::to_string(across) + " x " + std::to_string(lanes) + " of " + leaf.buffer};
        p.moves.push_back(move_split(s, lanes));
        p.moves.push_back(move_split(l, across));
        std::vector<std::string> order;
        for (size_t i = leaf.own; i < leaf.loops.size(); ++i)
          if (leaf.loops[i] != stored && leaf.loops[i] != loaded)
            order.push_back(loop_name(f, leaf.loops[i]));
        order.push_back(loaded_outside ? l + ".o" : s + ".o");
        order.push_back(loaded_outside ? s + ".o" : l + ".o");
        order.push_back(l + ".i");
        order.push_back(s + ".i");
        p.moves.push_back(move_reorder(order));
        p.moves.push_back(move_vectorise(s + ".i"));
        proposals.push_back(std::move(p));
      }
    }
  }
  return proposals;
}

} // namespace lathe::search
