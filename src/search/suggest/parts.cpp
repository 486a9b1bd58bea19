// Long reductions in a few parts side by side: each is a stream of its own, and several bring more from memory than
// one, whose prefetcher stops at the end of each page.
#include "search/suggest/suggest.hpp"

namespace lathe::search {
namespace {

constexpr int64_t kLongest = 1 << 17; // elements up to which one stream is as good

} // namespace

std::vector<Proposal> suggest_parts(const SuggestContext& c) {
  std::vector<Proposal> proposals;
  for (const Leaf& leaf : leaves_of(c.features)) {
    const Features& f = c.features;
    if (!leaf.combine || leaf.random || leaf.merged || leaf.vectorised || leaf.stage < 0) continue;
    if (leaf.loops.empty() || leaf.loops.size() == leaf.own) continue;
    const int along = leaf.loops.back();
    const int lanes = lanes_of(f, leaf, c.target);
    const int64_t extent = longest(f, along);
    if (!is_serial(f, along) || f.stride(f.accesses[leaf.store], along) != 0 || lanes < 2) continue;
    if (extent <= kLongest || !f.loops[along].loop->extent.is_const()) continue;
    bool is_stream = leaf.first < leaf.store;
    for (int a = leaf.first; a < leaf.store; ++a) is_stream &= f.stride(f.accesses[a], along) == 1;
    if (!is_stream) continue;
    const std::string r = loop_name(f, along), at = r + ".i", lane = r + ".i.i";
    const std::string copy = leaf.buffer + ".a" + std::to_string(next_scratch(c.kernel.kernel, leaf.stage));
    for (const int64_t parts : {4, 8}) {
      if (extent % (parts * lanes) != 0) continue;
      proposals.push_back(
          {{move_split(r, extent / parts), move_split(at, lanes), move_reorder({at + ".o", r + ".o", lane}),
            move_accumulate(leaf.buffer, at + ".o", {r + ".o", lane}), move_vectorise(lane),
            move_unroll(r + ".o"), move_vectorise(copy + ".z1"), move_unroll(copy + ".z0"),
            move_vectorise(copy + ".q1"), move_unroll(copy + ".q0")},
           "in " + std::to_string(parts) + " parts side by side"});
    }
  }
  return proposals;
}

} // namespace lathe::search
