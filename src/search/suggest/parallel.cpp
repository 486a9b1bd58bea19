// Proposes to run the outermost loops of the nests on all threads, in chunks of equal work.
#include <algorithm>
#include <cmath>

#include "search/suggest/suggest.hpp"

namespace lathe::search {
namespace {

bool touches_parallel(const Features& f, int nest) {
  for (int l = nest; l < f.loops[nest].end; ++l)
    if (kind_of(f, l) != ast::LoopKind::Serial && !is_straight(kind_of(f, l))) return true;
  return false;
}

/// Whether every global store in the loop moves with it; otherwise iterations share results.
bool independent(const Features& f, int loop) {
  for (int a = f.loops[loop].first_access; a < f.loops[loop].end_access; ++a) {
    const AccessInfo& access = f.accesses[a];
    if (access.store && f.buffers[access.buffer].buffer->scope == ast::Scope::Global &&
        f.stride(access, loop) == 0)
      return false;
  }
  return true;
}

} // namespace

std::vector<Proposal> suggest_parallel(const SuggestContext& c) {
  if (c.target.threads < 2 || c.target.groups) return {};
  const Features& f = c.features;
  std::vector<Proposal> proposals;
  // One loop of each nest: the outermost one that is independent and can be brought outermost.
  const std::vector<int> chunks = c.thorough ? std::vector<int>{0, 1, 4} : std::vector<int>{0, 1};
  for (int chunks_a_thread : chunks) {
    Script script(c.kernel);
    for (int nest = 0; nest < static_cast<int>(f.loops.size()); nest = f.loops[nest].end) {
      if (touches_parallel(f, nest)) continue;
      // Down the perfect nest to the first loop that may run in parallel.
      std::vector<int> passed;
      int l = nest;
      while (!independent(f, l)) {
        const auto& body = f.loops[l].loop->body;
        if (body.size() != 1 || !std::holds_alternative<ast::For>(body[0].node)) break;
        passed.push_back(l++);
      }
      if (!independent(f, l) || !is_serial(f, l) || longest(f, l) < 2) continue;
      LoopHandle loop = c.loop(l);
      const double extent = f.loops[l].extent;
      if (chunks_a_thread > 0) {
        const auto size = static_cast<int64_t>(std::ceil(extent / (chunks_a_thread * c.target.threads)));
        if (size < 2 || size >= longest(f, l)) continue;
        loop = script.split(loop, size).outer;
      } else if (extent > 65536) {
        continue;
      }
      if (!passed.empty()) {
        std::vector<LoopHandle> order{loop};
        for (int outer : passed) order.push_back(c.loop(outer));
        script.reorder(order);
      }
      script.add(MoveKind::Parallelise, loop);
    }
    if (!script.empty())
      proposals.push_back({script.take(), chunks_a_thread
                                              ? std::to_string(chunks_a_thread) + " chunks a thread"
                                              : "outermost loops in parallel"});
  }
  return proposals;
}

} // namespace lathe::search
