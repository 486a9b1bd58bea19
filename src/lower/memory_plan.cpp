#include <algorithm>
#include <numeric>

#include "lathe/error.hpp"
#include "lower/program.hpp"

namespace lathe::lower {
namespace {

int64_t align_up(int64_t value, int64_t alignment) {
  int64_t sum = 0;
  if (__builtin_add_overflow(value, alignment - 1, &sum))
    throw Error(ErrorKind::Limit, "compile: intermediates need more than 2^63 bytes, expected fewer");
  return sum / alignment * alignment;
}

int64_t add(int64_t a, int64_t b) {
  int64_t sum = 0;
  if (__builtin_add_overflow(a, b, &sum))
    throw Error(ErrorKind::Limit, "compile: intermediates need more than 2^63 bytes, expected fewer");
  return sum;
}

} // namespace

MemoryPlan plan_memory(const std::vector<LiveRange>& ranges, int64_t alignment) {
  MemoryPlan plan;
  plan.offsets.assign(ranges.size(), 0);
  std::vector<size_t> order(ranges.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return ranges[a].bytes > ranges[b].bytes; });

  std::vector<size_t> placed; // by offset
  for (const size_t i : order) {
    const LiveRange& range = ranges[i];
    const int64_t bytes = align_up(range.bytes, alignment);
    plan.naive = add(plan.naive, bytes);
    if (bytes == 0) continue;
    // Best fit: of all gaps between those alive at the same time, the smallest that is large enough.
    int64_t end_of_busy = 0, best = -1, best_gap = 0;
    for (const size_t j : placed) {
      const LiveRange& other = ranges[j];
      if (other.last < range.first || range.last < other.first) continue;
      const int64_t gap = plan.offsets[j] - end_of_busy;
      if (gap >= bytes && (best < 0 || gap < best_gap)) best = end_of_busy, best_gap = gap;
      end_of_busy = std::max(end_of_busy, plan.offsets[j] + align_up(other.bytes, alignment));
    }
    plan.offsets[i] = best >= 0 ? best : end_of_busy;
    plan.peak = std::max(plan.peak, add(plan.offsets[i], bytes));
    placed.insert(std::upper_bound(placed.begin(), placed.end(), i,
                                   [&](size_t a, size_t b) { return plan.offsets[a] < plan.offsets[b]; }),
                  i);
  }
  return plan;
}

} // namespace lathe::lower
