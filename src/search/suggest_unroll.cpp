// Short loops whose iterations are straight-line code, unrolled in full; longer ones by a small factor.
#include <algorithm>

#include "search/suggest.hpp"

namespace lathe::search {

std::vector<Proposal> suggest_unroll(const SuggestContext& c) {
  constexpr double kMostInstructions = 512;
  const Features& f = c.features;
  std::vector<Proposal> proposals;
  for (int l = 0; l < static_cast<int>(f.loops.size()); ++l) {
    const LoopInfo& loop = f.loops[l];
    if (!is_serial(f, l) || loop.body.empty()) continue;
    bool straight = true;  // nothing inside but unrolled and vector loops
    for (int inner = l + 1; inner < loop.end; ++inner)
      straight &= kind_of(f, inner) == ast::LoopKind::Unroll || kind_of(f, inner) == ast::LoopKind::Vector;
    if (!straight) continue;
    const double size = loop.body.arithmetic + loop.body.loads + loop.body.stores;
    if (longest(f, l) <= 16 && size * static_cast<double>(longest(f, l)) <= kMostInstructions) {
      proposals.push_back({{move_unroll(loop_name(f, l))}, "unroll " + loop_name(f, l)});
    } else {
      for (int64_t factor : {2, 4}) {
        if (longest(f, l) <= factor || size * static_cast<double>(factor) > kMostInstructions) continue;
        if (!c.thorough && factor != 4) continue;
        proposals.push_back({{move_split(loop_name(f, l), factor), move_unroll(loop_name(f, l) + ".i")},
                             "unroll " + loop_name(f, l) + " by " + std::to_string(factor)});
      }
    }
  }
  return proposals;
}

}  // namespace lathe::search
