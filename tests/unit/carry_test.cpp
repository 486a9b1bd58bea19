// carry: a sum over all earlier iterations of a loop is kept from one to the next.
#include <algorithm>

#include <doctest/doctest.h>

#include "support/run_plan.hpp"
#include "support/search_programs.hpp"

using namespace lathe;
using namespace lathe::search;

namespace {

/// y[r, c] = x[r, c] + the sum of x[r, k] for k < c, not scheduled.
Tensor sums_before(int64_t columns) {
  const Tensor x = test::in("x", {3, columns});
  const Tensor before =
      x.pad({{0, 0}, {columns, 0}}).shrink({{0, 3}, {0, 2 * columns - 1}}).window(1, columns).sum(-1);
  return x + before;
}
Plan with_moves(const Tensor& y, const std::vector<const char*>& texts) {
  std::vector<Move> moves;
  for (const char* text : texts) moves.push_back(parse_move(text));
  return replay(test::lowered(y), moves, test::target());
}
/// The sum t0 computed for each element of t1.
Plan fused(const Tensor& y) { return with_moves(y, {"fuse_at(t0, t1.i1, register)"}); }
Plan carried(int64_t columns) {
  const Applied applied = apply(fused(sums_before(columns)), parse_move("carry(t0, t1.i1)"), test::target());
  REQUIRE_MESSAGE(applied.plan, applied.reason);
  return *applied.plan;
}

size_t count(const Plan& plan, MoveKind kind) {
  const std::vector<Move> moves = plan.moves();
  return static_cast<size_t>(
      std::count_if(moves.begin(), moves.end(), [&](const Move& m) { return m.kind == kind; }));
}

} // namespace

TEST_CASE("each iteration adds its own part, and the loop over the past is gone") {
  for (const int64_t columns : {2, 5, 16, 17}) {
    const Plan plan = carried(columns);
    size_t loops = 0;
    ast::visit(plan.kernels.at(0)->kernel.body, [&](const ast::Stmt& stmt, const auto&) {
      loops += std::holds_alternative<ast::For>(stmt.node);
    });
    CHECK(loops == 2); // rows and columns
    CHECK(test::difference_from_unscheduled(plan, columns) == "");
    // As text and back, as the measuring process gets it.
    const ast::Kernel& kernel = plan.kernels[0]->kernel;
    CHECK(ast::structural_hash(ast::parse(ast::print(kernel))) == ast::structural_hash(kernel));
  }
}

TEST_CASE("loops that carry a sum keep their order") {
  Plan plan = carried(18);
  CHECK(test::why_not(plan, "parallelise(t1.i1)") == "t0 is made outside t1.i1 and is private to a thread");
  CHECK(test::why_not(plan, "carry(t0, t1.i1)") == "t1.i1 does not compute t0 for itself");
  CHECK(test::why_not(plan, "store_first(t0, t1.i1)") == "under t1.i1 there are not just combines of t0");
  plan = *apply(plan, parse_move("split(t1.i1, 4)"), test::target()).plan;
  CHECK(test::why_not(plan, "reorder(t1.i1.i, t1.i1.o)") == "t0 is read while it is summed up");
  CHECK(test::why_not(plan, "vectorise(t1.i1.i)") == "t0 is read while it is summed up");
  for (const char* text : {"unroll(t1.i1.i)", "parallelise(t1.i0)"}) {
    const Applied applied = apply(plan, parse_move(text), test::target());
    REQUIRE_MESSAGE(applied.plan, applied.reason);
    plan = *applied.plan;
    CHECK(test::difference_from_unscheduled(plan, 18) == "");
  }
}

TEST_CASE("what is no sum over all of the past is not carried") {
  const Plan plan = fused(sums_before(9));
  CHECK(test::why_not(plan, "carry(t0, t1.i0)") == "t1.i0 does not compute t0 for itself");
  CHECK(test::why_not(plan, "carry(t0, t1.i9)") == "there is no loop t1.i9");
  CHECK(test::why_not(with_moves(sums_before(9), {}), "carry(t0, t1.i1)") ==
        "t0 and t1.i1 are not in one kernel");
  const Tensor x = test::in("x", {3, 9});
  const auto why = [&](const Tensor& y) { return test::why_not(fused(x + y), "carry(t0, t1.i1)"); };
  const Tensor padded = x.pad({{0, 0}, {9, 0}});
  // The last three; those up to the element itself; the largest; all of the row.
  CHECK(why(x.pad({{0, 0}, {3, 0}}).shrink({{0, 3}, {0, 11}}).window(1, 3).sum(-1)) ==
        "t0 does not sum up all that lies before t1.i1");
  CHECK(why(padded.shrink({{0, 3}, {1, 18}}).window(1, 9).sum(-1)) ==
        "t0 does not sum up all that lies before t1.i1");
  CHECK(why(padded.shrink({{0, 3}, {0, 17}}).window(1, 9).max(-1)) == "t0 is no sum of elements of a buffer");
  CHECK(why(x.unsqueeze(1).expand({3, 9, 9}).sum(-1)) == "t0 does not sum up what lies before t1.i1");
  // Of every second one.
  CHECK(why(x.pad({{0, 0}, {18, 0}}).shrink({{0, 3}, {0, 25}}).window(1, 9, 1, 2).sum(-1)) ==
        "t0 does not sum up all that lies before t1.i1");
}

TEST_CASE("cumulative sums are computed in one pass over each row") {
  for (const Shape& shape : std::vector<Shape>{{64, 1024}, {64, 1000}, {8, 3, 10000}}) {
    const Plan plan = test::searched(test::in("x", shape).cumsum(-1)).plan;
    CHECK(count(plan, MoveKind::Carry) == 1);
    size_t passes = 0; // kernels that read the input
    for (const KernelPlanRef& kernel : plan.kernels)
      for (const ast::Param& param : kernel->kernel.params) passes += param.buffer->name == "x";
    CHECK(passes == (shape.size() == 2 ? 1u : 2u)); // and one for the sums of the parts before
  }
}

TEST_CASE("cumulative sums longer than a million elements") {
  // Blocks of 16, windows of 256 blocks and parts of 256 windows: past that the parts' sums are cut up, too.
  constexpr int64_t kCount = 16 * 256 * 256 + 4099;
  std::vector<int32_t> x(kCount);
  for (size_t k = 0; k < x.size(); ++k) x[k] = static_cast<int32_t>(static_cast<uint32_t>(k) * 2654435761u >> 20) - 2048;
  const std::vector<int64_t> sums = Tensor::from(x).cumsum(0).to_vector<int64_t>();
  int64_t sum = 0;
  const auto wrong = std::mismatch(sums.begin(), sums.end(), x.begin(),
                                   [&](int64_t got, int32_t next) { return got == (sum += next); });
  REQUIRE(sums.size() == x.size());
  CHECK_MESSAGE(wrong.first == sums.end(), "from element ", wrong.first - sums.begin());
}
