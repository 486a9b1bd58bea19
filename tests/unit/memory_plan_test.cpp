// The planner's promises over random live ranges.
#include <doctest/doctest.h>

#include <algorithm>

#include "core/hash.hpp"
#include "lathe/error.hpp"
#include "lower/program.hpp"

using namespace lathe;
using lower::LiveRange;

namespace {

int64_t rounded(int64_t bytes, int64_t alignment) { return (bytes + alignment - 1) / alignment * alignment; }

/// The most bytes alive at any one time: no plan can need less.
int64_t most_alive(const std::vector<LiveRange>& ranges, int64_t alignment) {
  int64_t most = 0;
  for (const LiveRange& at : ranges) {
    int64_t alive = 0;
    for (const LiveRange& r : ranges)
      if (r.first <= at.first && at.first <= r.last) alive += rounded(r.bytes, alignment);
    most = std::max(most, alive);
  }
  return most;
}

void check(const std::vector<LiveRange>& ranges, int64_t alignment) {
  const lower::MemoryPlan plan = lower::plan_memory(ranges, alignment);
  REQUIRE(plan.offsets.size() == ranges.size());
  int64_t naive = 0, highest = 0;
  for (size_t a = 0; a < ranges.size(); ++a) {
    REQUIRE(plan.offsets[a] % alignment == 0);
    REQUIRE(plan.offsets[a] >= 0);
    naive += rounded(ranges[a].bytes, alignment);
    if (ranges[a].bytes > 0)
      highest = std::max(highest, plan.offsets[a] + rounded(ranges[a].bytes, alignment));
    for (size_t b = 0; b < a; ++b) {
      const bool same_time = ranges[a].first <= ranges[b].last && ranges[b].first <= ranges[a].last;
      const bool same_place = plan.offsets[a] < plan.offsets[b] + ranges[b].bytes &&
                              plan.offsets[b] < plan.offsets[a] + ranges[a].bytes;
      REQUIRE_FALSE((same_time && same_place));
    }
  }
  REQUIRE(plan.naive == naive);
  REQUIRE(plan.peak == highest);
  REQUIRE(plan.peak >= most_alive(ranges, alignment));
  REQUIRE(plan.peak <= naive);
}

} // namespace

TEST_CASE("ranges alive together never overlap, whatever the ranges") {
  uint64_t state = 7;
  const auto random = [&](int64_t n) { return static_cast<int64_t>((state = mix(state, 1)) >> 33) % n; };
  for (int round = 0; round < 2000; ++round) {
    std::vector<LiveRange> ranges;
    const int64_t count = random(24);
    for (int64_t k = 0; k < count; ++k) {
      const int first = static_cast<int>(random(20));
      ranges.push_back(
          {first, first + static_cast<int>(random(8)), random(4) == 0 ? random(10) : random(5000)});
    }
    check(ranges, round % 2 ? 128 : 1);
  }
}

TEST_CASE("a chain needs two buffers, however long it is") {
  std::vector<LiveRange> chain;
  for (int k = 0; k < 50; ++k) chain.push_back({k, k + 1, 1024});
  const lower::MemoryPlan plan = lower::plan_memory(chain, 128);
  CHECK(plan.peak == 2048);
  CHECK(plan.naive == 50 * 1024);
}

TEST_CASE("best fit: a gap of the right size is taken before a larger one") {
  // Alive throughout: [0, 512) is free later, [1024, 1152) too.
  const lower::MemoryPlan plan =
      lower::plan_memory({{0, 0, 512}, {0, 9, 511}, {0, 0, 128}, {0, 9, 127}, {5, 5, 126}}, 1);
  CHECK(plan.offsets[4] == plan.offsets[2]);
}

TEST_CASE("sizes beyond what can be added are refused") {
  const int64_t huge = int64_t{1} << 62;
  try {
    lower::plan_memory({{0, 1, huge}, {0, 1, huge}, {0, 1, huge}}, 128);
    FAIL("no error");
  } catch (const Error& e) {
    CHECK(e.kind() == ErrorKind::Limit);
  }
}
