// Long reductions in a few parts side by side: each is a stream of its own, and several bring more from
// memory than one, whose prefetcher stops at the end of each page.
#include "search/suggest/suggest.hpp"

namespace lathe::search {
namespace {

constexpr int64_t kLongest = 1 << 17; // elements up to which one stream is as good

} // namespace

std::vector<Proposal> suggest_parts(const SuggestContext& c) {
  std::vector<Proposal> proposals;
  for (const Leaf& leaf : c.leaves()) {
    const Features& f = c.features;
    if (!leaf.combine || leaf.random || leaf.merged || leaf.vectorised) continue;
    if (leaf.loops.empty() || leaf.loops.size() == leaf.own) continue;
    const int along = leaf.loops.back();
    const int lanes = lanes_of(f, leaf, c.target);
    const int64_t extent = longest(f, along);
    if (!is_serial(f, along) || f.stride(f.accesses[leaf.store], along) != 0 || lanes < 2) continue;
    if (extent <= kLongest || !f.loops[along].loop->extent.is_const()) continue;
    bool is_stream = leaf.first < leaf.store;
    for (int a = leaf.first; a < leaf.store; ++a) is_stream &= f.stride(f.accesses[a], along) == 1;
    if (!is_stream) continue;
    for (const int64_t parts : {4, 8}) {
      if (extent % (parts * lanes) != 0) continue;
      Script script(c.kernel);
      const Halves part = script.split(c.loop(along), extent / parts);
      const Halves vector = script.split(part.inner, lanes);
      script.reorder({vector.outer, part.outer, vector.inner});
      const Accumulator copy = script.accumulate(leaf.result, vector.outer, {part.outer, vector.inner});
      script.vectorise(vector.inner);
      script.unroll(part.outer);
      script.vectorise(copy.setting(1));
      script.unroll(copy.setting(0));
      script.vectorise(copy.summing(1));
      script.unroll(copy.summing(0));
      proposals.push_back({script.take(), "in " + std::to_string(parts) + " parts side by side"});
    }
  }
  return proposals;
}

} // namespace lathe::search
