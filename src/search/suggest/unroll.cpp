// Short loops whose iterations are straight-line code, unrolled in full; longer ones with little in them by a
// small factor.
#include <algorithm>

#include "search/suggest/suggest.hpp"

namespace lathe::search {
namespace {

constexpr double kMostInstructions = 512; // of an unrolled body
constexpr double kSmall = 16;             // a body of more hides the loop's own instructions

/// Nothing inside but unrolled and vector loops, and stores.
bool is_straight(const Features& f, int loop) {
  for (int inner = loop + 1; inner < f.loops[loop].end; ++inner)
    if (kind_of(f, inner) != ast::LoopKind::Unroll && kind_of(f, inner) != ast::LoopKind::Vector)
      return false;
  return !f.loops[loop].body.empty();
}

} // namespace

std::vector<Proposal> suggest_unroll(const SuggestContext& c) {
  const Features& f = c.features;
  std::vector<Proposal> proposals;
  Proposal all{{}, "unroll what is short"};
  for (int l = 0; l < static_cast<int>(f.loops.size()); ++l) {
    if (!is_serial(f, l) || !is_straight(f, l)) continue;
    const Work& body = f.loops[l].body;
    const double size = body.arithmetic + body.loads + body.stores;
    const std::string& name = loop_name(f, l);
    const int64_t extent = longest(f, l);
    std::vector<Move> moves;
    if (extent <= 16 && size * static_cast<double>(extent) <= kMostInstructions)
      moves = {move_unroll(name)};
    else if (extent > 4 && size <= kSmall)
      moves = {move_split(name, 4), move_unroll(name + ".i")};
    all.moves.insert(all.moves.end(), moves.begin(), moves.end());
    if (!c.thorough) continue;
    if (!moves.empty()) proposals.push_back({std::move(moves), "unroll " + name});
    if (extent > 2 && size <= 4 * kSmall)
      proposals.push_back({{move_split(name, 2), move_unroll(name + ".i")}, "unroll " + name + " by 2"});
  }
  if (!all.moves.empty()) proposals.push_back(std::move(all));
  return proposals;
}

} // namespace lathe::search
