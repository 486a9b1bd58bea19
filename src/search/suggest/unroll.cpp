// Proposes to unroll loops whose iterations are straight-line code: short loops in full, longer ones with a
// small body by a small factor.
#include <algorithm>

#include "search/suggest/suggest.hpp"

namespace lathe::search {
namespace {

constexpr double kMostInstructions = 512; // instructions of an unrolled body
constexpr double kSmall = 16;             // instructions; a larger body hides the loop's own

/// Whether the loop holds only loops that are straight-line code, and stores.
bool is_straight(const Features& f, int loop) {
  for (int inner = loop + 1; inner < f.loops[loop].end; ++inner)
    if (!search::is_straight(kind_of(f, inner))) return false;
  return !f.loops[loop].body.empty();
}

} // namespace

std::vector<Proposal> suggest_unroll(const SuggestContext& c) {
  const Features& f = c.features;
  std::vector<Proposal> proposals;
  Script all(c.kernel);
  for (int l = 0; l < static_cast<int>(f.loops.size()); ++l) {
    if (!is_serial(f, l) || !is_straight(f, l)) continue;
    const Work& body = f.loops[l].body;
    const double size = body.arithmetic + body.loads + body.stores;
    const LoopHandle loop = c.loop(l);
    const int64_t extent = longest(f, l);
    Script one(c.kernel);
    if (extent <= 16 && size * static_cast<double>(extent) <= kMostInstructions)
      one.unroll(loop);
    else if (extent > 4 && size <= kSmall)
      one.unroll(one.split(loop, 4).inner);
    const std::vector<Move> moves = one.take();
    all.add(moves);
    if (!c.thorough) continue;
    if (!moves.empty()) proposals.push_back({moves, "unroll " + loop.name()});
    if (extent > 2 && size <= 4 * kSmall) {
      Script by_two(c.kernel);
      by_two.unroll(by_two.split(loop, 2).inner);
      proposals.push_back({by_two.take(), "unroll " + loop.name() + " by 2"});
    }
  }
  if (!all.empty()) proposals.push_back({all.take(), "unroll what is short"});
  return proposals;
}

} // namespace lathe::search
