// store_first: the first block of a reduction stores what the others add to.
#include <doctest/doctest.h>

#include "search/cost/features.hpp"
#include "search/cost/traffic.hpp"
#include "support/run_plan.hpp"
#include "support/search_programs.hpp"

using namespace lathe;
using namespace lathe::search;

namespace {

/// c[13, 70] by blocks of 20 of the 50 that are summed up, tiles of 4 x 32 in registers.
Plan blocked() {
  Plan plan = initial_plan(test::lowered(test::in("a", {13, 50}).matmul(test::in("b", {50, 70}))));
  std::vector<Move> moves;
  for (const char* text :
       {"inline(t0)", "split(t1.r2, 20)", "split(t1.i0, 4)", "split(t1.i1, 32)", "split(t1.i1.i, 16)",
        "reorder(t1.r2.o, t1.i1.o, t1.i0.o, t1.r2.i, t1.i0.i, t1.i1.i.o, t1.i1.i.i)",
        "accumulate(t1, t1.r2.i)", "vectorise(t1.i1.i.i)", "vectorise(t1.a0.z2)", "vectorise(t1.a0.w2)"})
    moves.push_back(parse_move(text));
  return replay(plan.program, moves, test::target());
}
size_t stores_to(const Plan& plan, std::string_view buffer, bool combining) {
  size_t count = 0;
  for (const auto& kernel : plan.kernels)
    ast::visit(kernel->kernel.body, [&](const ast::Stmt& stmt, const auto&) {
      const auto* store = std::get_if<ast::Store>(&stmt.node);
      count += store && store->buffer->name == buffer && store->combine.has_value() == combining;
    });
  return count;
}

} // namespace

TEST_CASE("the first block stores, the others add, and nothing else sets the result") {
  const Plan before = blocked();
  CHECK(stores_to(before, "t1", false) == 1); // the identity
  const Applied applied = apply(before, parse_move("store_first(t1, t1.r2.o)"), test::target());
  REQUIRE_MESSAGE(applied.plan, applied.reason);
  CHECK(applied.plan->kernels[0]->kernel.body.size() == before.kernels[0]->kernel.body.size() - 1);
  CHECK(stores_to(*applied.plan, "t1", false) == 1);
  CHECK(stores_to(*applied.plan, "t1", true) == 1);
  CHECK(test::difference_from_unscheduled(*applied.plan, 50) == "");
  // As text and back, as the measuring process gets it.
  const ast::Kernel& kernel = applied.plan->kernels[0]->kernel;
  CHECK(ast::structural_hash(ast::parse(ast::print(kernel))) == ast::structural_hash(kernel));
}

TEST_CASE("a maximum, with nothing around the combine") {
  const Plan plan = initial_plan(test::lowered(test::in("a", {7, 33}).max(0)));
  const std::string t = plan.program->stages[0].buffer->name;
  std::vector<Move> moves;
  for (const std::string& text :
       {"reorder(" + t + ".r0, " + t + ".i1)", "store_first(" + t + ", " + t + ".r0)"})
    moves.push_back(parse_move(text));
  CHECK(test::difference_from_unscheduled(replay(plan.program, moves, test::target()), 7) == "");
}

TEST_CASE("what comes twice or in any order is not stored first") {
  const Plan plan = blocked();
  CHECK(test::why_not(plan, "store_first(t1, t1.i1.o)") == "t1.i1.o is not a reducing loop");
  CHECK(test::why_not(plan, "store_first(t1, t1.r9)") == "there is no loop t1.r9");
  CHECK(test::why_not(plan, "store_first(t1, t1.r2.i)") == "under t1.r2.i there are not just combines of t1");
  const Plan once = *apply(plan, parse_move("store_first(t1, t1.r2.o)"), test::target()).plan;
  CHECK(test::why_not(once, "store_first(t1, t1.r2.o)") == "under t1.r2.o there are not just combines of t1");
  // A loop inside that reduces, too: the first iteration of the outer one adds several times.
  const Plan two = initial_plan(test::lowered(test::in("a", {5, 6, 7}).sum({0, 1})));
  CHECK(test::why_not(two, "store_first(t0, t0.r0)") == "t0.r1 adds several times");
  // And around: the first iteration comes more than once.
  CHECK(test::why_not(two, "store_first(t0, t0.r1)") == "nothing sets t0 to the identity around t0.r1");
}

TEST_CASE("features and traffic count conditions by how often they hold") {
  const Applied applied = apply(blocked(), parse_move("store_first(t1, t1.r2.o)"), test::target());
  REQUIRE(applied.plan);
  Features f;
  read_features(applied.plan->kernels[0]->kernel, test::target(), f);
  std::vector<double> shares;
  for (const LoopInfo& loop : f.loops)
    if (loop.is_condition) shares.push_back(loop.extent);
  REQUIRE(shares.size() == 2);
  CHECK(shares[0] == doctest::Approx(1.0 / 3)); // of three blocks
  CHECK(shares[1] == doctest::Approx(2.0 / 3));
  // A cache that holds next to nothing: the result is stored by each block, and read by all but the first.
  std::vector<Traffic> moved;
  traffic(f, cache_shape(256, false), moved);
  double read = 0, written = 0;
  for (size_t a = 0; a < f.accesses.size(); ++a)
    if (f.buffers[static_cast<size_t>(f.accesses[a].buffer)].buffer->name == "t1") {
      read += moved[a].read;
      written += moved[a].written;
    }
  CHECK(read == doctest::Approx(written * 2 / 3));
}
