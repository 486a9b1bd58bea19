// fuse_at: a stage computed under a loop of its reader, as far as an iteration needs it.
#include <doctest/doctest.h>

#include "support/run_plan.hpp"
#include "support/search_programs.hpp"

using namespace lathe;
using namespace lathe::search;

namespace {

/// The plan after these moves, each of which is legal and keeps what is computed.
Plan after(const Tensor& y, const std::vector<const char*>& moves) {
  Plan plan = initial_plan(test::lowered(y));
  for (const char* text : moves) {
    const Applied applied = apply(plan, parse_move(text), test::target());
    REQUIRE_MESSAGE(applied.plan, text, ": ", applied.reason);
    plan = *applied.plan;
    CHECK(test::difference_from_unscheduled(plan, 40) == "");
  }
  return plan;
}

/// t0: the squares, t1: their sums, t2: each square beside its row's sum.
Tensor shares() {
  const Tensor x = test::in("x", {5, 7}), squares = x * x;
  return maximum(squares, squares.sum(1, true));
}

} // namespace

TEST_CASE("a stage goes under a loop that holds all of its readers, and under no other") {
  const Plan plan = after(shares(), {"fuse_at(t1, t2.i0, packed)"});
  CHECK(test::why_not(plan, "fuse_at(t0, t1.r1, register)") == "t0 is also read outside t1.r1");
  CHECK(test::why_not(plan, "fuse_at(t0, t2.i1, register)") == "t0 is also read outside t2.i1");
  after(shares(), {"fuse_at(t1, t2.i0, packed)", "fuse_at(t0, t2.i0, packed)"});
}

TEST_CASE("what neighbours take in is computed for all of them") {
  const Tensor x = test::in("x", {6, 9}), squares = x * x;
  for (const int64_t size : {2, 3, 5}) {
    CAPTURE(size);
    after(squares.window(1, size).sum(-1) + 1, {"fuse_at(t0, t1.i1, register)"});
    after(squares.window(0, size).sum(-1) + 1, {"fuse_at(t0, t1.i0, packed)"});
    after(squares.flip({1}).window(1, size).max(-1) + 1, {"fuse_at(t0, t1.i1, register)"});
    // Several reads, each of another neighbour; the first of them is the lowest, or the highest.
    const Tensor low = squares.shrink({{0, 6}, {0, 8}}), high = squares.shrink({{0, 6}, {1, 9}});
    for (const Tensor& both : {low + high.sqrt(), high + low.sqrt()}) {
      after(both, {"inline(t1)", "fuse_at(t0, t2.i1, register)"});
      after(both, {"inline(t1)", "split(t2.i1, 3)", "fuse_at(t0, t2.i1.o, packed)"});
    }
  }
}
