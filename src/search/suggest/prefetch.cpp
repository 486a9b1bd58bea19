// Proposes prefetches: of the next row while a nest works on this one, or of data a few kilobytes ahead,
// since the hardware's own prefetcher stops at the end of a page.
#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "search/suggest/suggest.hpp"

namespace lathe::search {
namespace {

constexpr double kLeastRow = 1024,
                 kMostRow = 64 << 10; // bytes; hardware foresees shorter rows, longer ones don't stay cached

struct Read {
  const Leaf* leaf;
  int access;
};

/// Reads of large inputs that are contiguous along their vector or innermost loop and have no prefetch yet.
std::vector<Read> reads_of(const SuggestContext& c, const std::vector<Leaf>& leaves) {
  const Features& f = c.features;
  const double cached =
      static_cast<double>(c.machine.levels[std::min<size_t>(1, c.machine.levels.size() - 1)].bytes);
  std::vector<Read> reads;
  for (const Leaf& leaf : leaves) {
    if (leaf.loops.empty()) continue;
    for (int a = leaf.first; a < leaf.store; ++a) {
      const AccessInfo& access = f.accesses[a];
      const BufferInfo& b = f.buffers[access.buffer];
      const bool is_input =
          std::any_of(c.kernel.kernel.params.begin(), c.kernel.kernel.params.end(),
                      [&](const ast::Param& p) { return !p.written && p.buffer.get() == b.buffer; });
      if (access.random || access.ahead != 0 || !is_input || b.elements * b.element_bytes < cached) continue;
      if (f.stride(access, leaf.loops.back()) == 1) reads.push_back({&leaf, a});
    }
  }
  return reads;
}

/// Whether two prefetches are of one buffer in one nest along one loop. Each concerns all that the nest reads
/// of the buffer, so the later one undoes the earlier.
bool concern_the_same(const Move& a, const Move& b) {
  return std::equal(a.arguments.begin(), a.arguments.end() - 1, b.arguments.begin());
}

} // namespace

std::vector<Proposal> suggest_prefetch(const SuggestContext& c) {
  if (c.target.groups) return {};
  const Features& f = c.features;
  const std::vector<Leaf> leaves = c.leaves();
  const std::vector<Read> reads = reads_of(c, leaves);
  std::vector<Proposal> proposals;
  std::vector<Move> alone; // proposed by themselves
  // Prefetches of the next row, in each of the nests that read this one.
  for (const Read& r : reads) {
    const AccessInfo& access = f.accesses[r.access];
    const BufferInfo& b = f.buffers[access.buffer];
    for (int l : r.leaf->loops) {
      const double row = f.stride(access, l) * b.element_bytes;
      if (row < kLeastRow || row > kMostRow || f.loops[l].extent < 2) continue;
      for (int64_t rows : c.thorough ? std::vector<int64_t>{1, 2} : std::vector<int64_t>{1}) {
        Move move{MoveKind::Prefetch, {r.leaf->stage(), c.buffer(access.buffer), c.loop(l), rows}};
        if (std::find(alone.begin(), alone.end(), move) != alone.end()) continue;
        alone.push_back(move);
        proposals.push_back(
            {{std::move(move)},
             fmt::format("ask for the next row of {} in {}", b.buffer->name, r.leaf->result.name())});
      }
    }
  }
  // Prefetches of all inputs of one nest, some bytes ahead.
  for (const Leaf& leaf : leaves)
    for (double bytes : c.thorough ? std::vector<double>{1024, 2048, 4096} : std::vector<double>{4096}) {
      std::vector<Move> moves;
      for (const Read& r : reads) {
        if (r.leaf != &leaf || leaf.loops.size() < 2) continue;
        const AccessInfo& access = f.accesses[r.access];
        // The innermost loop, except the vector loop and unrolled ones, along which the read moves.
        for (size_t i = leaf.loops.size() - 1; i-- > 0;) {
          const int l = leaf.loops[i];
          const double step = f.stride(access, l) * f.buffers[access.buffer].element_bytes;
          if (kind_of(f, l) == ast::LoopKind::Unroll || step <= 0) continue;
          if (step <= bytes) {
            Move move{MoveKind::Prefetch,
                      {leaf.stage(), c.buffer(access.buffer), c.loop(l),
                       static_cast<int64_t>(std::ceil(bytes / step))}};
            std::erase_if(moves, [&](const Move& earlier) { return concern_the_same(earlier, move); });
            moves.push_back(std::move(move));
          }
          break;
        }
      }
      if (moves.size() == 1 && std::find(alone.begin(), alone.end(), moves[0]) != alone.end()) continue;
      if (!moves.empty())
        proposals.push_back({std::move(moves),
                             fmt::format("ask for what {} reads {} bytes ahead", leaf.result.name(), bytes)});
    }
  return proposals;
}

} // namespace lathe::search
