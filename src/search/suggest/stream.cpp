// Proposes to store outputs larger than the caches past them.
#include "search/machine/machine_limits.hpp"
#include "search/suggest/suggest.hpp"

namespace lathe::search {
namespace {

/// Whether the stores of neighbouring iterations lie side by side. Past the caches each part of a line that is
/// stored by itself takes longer than many lines.
bool fills_lines(const Features& f, const AccessInfo& store) { return f.run_in_order(store) >= kCacheLine; }

} // namespace

std::vector<Proposal> suggest_stream(const SuggestContext& c) {
  const Features& f = c.features;
  const auto& levels = c.machine.levels;
  const double cached = static_cast<double>(levels[levels.size() >= 3 ? levels.size() - 3 : 0].bytes);
  std::vector<Proposal> proposals;
  Script all(c.kernel);
  for (const ast::Param& p : c.kernel.kernel.params) {
    if (!p.written) continue;
    bool plain = true, found = false, streaming = false;
    double bytes = 0;
    for (const AccessInfo& a : f.accesses) {
      const BufferInfo& b = f.buffers[a.buffer];
      if (b.buffer->id != p.buffer->id) continue;
      found = true;
      plain &= a.store && !a.combine && !a.random && fills_lines(f, a);
      streaming |= a.streaming;
      bytes = b.elements * b.element_bytes;
    }
    if (found && plain && !streaming && bytes > cached)
      all.add(MoveKind::Stream, StageHandle(stage_of(*c.plan.program, *p.buffer)));
  }
  if (!all.empty()) proposals.push_back({all.take(), "store large outputs past the caches"});
  return proposals;
}

} // namespace lathe::search
