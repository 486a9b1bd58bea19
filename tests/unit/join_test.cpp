// Two axes that nothing in a kernel tells apart become one.
#include <doctest/doctest.h>

#include "search/moves/join.hpp"
#include "search/moves/plan.hpp"
#include "support/inlined.hpp"
#include "support/moves.hpp"
#include "support/run_plan.hpp"
#include "support/search_programs.hpp"

using namespace lathe;
using namespace lathe::search;

namespace {

Plan plan_of(const Tensor& y) { return initial_plan(test::lowered(y)); }

std::string last_name(const Plan& plan) { return fmt::format("t{}", plan.kernels.back()->stages.back()); }

Plan after(const Plan& plan, const std::vector<Move>& moves) {
  Applied applied = apply(plan, moves, test::target());
  CAPTURE(applied.reason);
  REQUIRE(applied.plan);
  return *applied.plan;
}

std::string refusal(const Plan& plan, const Move& move) { return apply(plan, move, test::target()).reason; }

/// Extents of the loops of a kernel's nests, outermost first.
std::vector<std::vector<int64_t>> extents(const KernelPlan& kernel) {
  std::vector<std::vector<int64_t>> nests;
  ast::visit(kernel.kernel.body, [&](const ast::Stmt& stmt, const std::vector<const ast::For*>& loops) {
    if (!std::holds_alternative<ast::Store>(stmt.node)) return;
    nests.emplace_back();
    for (const ast::For* loop : loops) nests.back().push_back(loop->extent.value());
  });
  return nests;
}

std::vector<unsigned char> result(const Plan& plan) {
  test::Memory memory = test::random_inputs(*plan.program, 11);
  for (const auto& k : plan.kernels) ast::verify(k->kernel);
  test::run_plan(plan, memory, nullptr);
  return memory.at(last_name(plan));
}

Tensor pointwise_convolution(const Tensor& x) {
  return x.conv2d(Tensor::input("w", {8, 5, 1, 1})) + test::in("b", {8, 1, 1});
}

} // namespace

TEST_CASE("a 1 x 1 convolution sees one axis of pixels") {
  const Tensor x = test::in("x", {1, 5, 7, 3});
  const Plan plan = test::inlined(plan_of(pointwise_convolution(x).relu() + test::in("r", {1, 8, 7, 3})));
  Plan joined = plan;
  for (const auto& kernel : plan.kernels) {
    const std::vector<Move> joins = moves_of(joins_of(*plan.program, *kernel));
    CHECK(joins.size() == 1); // the pixels: channels are the other axis of the weights
    joined = after(joined, joins);
  }
  CHECK(extents(*joined.kernels[0]) == std::vector<std::vector<int64_t>>{{8, 21}, {8, 21, 5}});
  CHECK(extents(*joined.kernels[1]) == std::vector<std::vector<int64_t>>{{8, 21}});
  CHECK(result(joined) == result(plan));
}

TEST_CASE("all axes of an elementwise kernel become one") {
  const Tensor a = test::in("a", {3, 5, 7});
  const Plan plan = test::inlined(plan_of((a * 2.0f + test::in("b", {3, 5, 7})).exp2()));
  const std::vector<Move> joins = moves_of(joins_of(*plan.program, *plan.kernels[0]));
  CHECK(joins.size() == 2);
  const Plan joined = after(plan, joins);
  CHECK(extents(*joined.kernels[0]) == std::vector<std::vector<int64_t>>{{105}});
  CHECK(result(joined) == result(plan));
}

TEST_CASE("pixels and their channels become one where neighbouring pixels are read, if a pixel is short") {
  const auto joins_with = [](int64_t channels) {
    const Tensor image = test::in("image", {5, 9, channels});
    const auto moved = [&](int64_t y, int64_t x) {
      return image.shrink({{y, y + 3}, {x, x + 7}, {0, channels}});
    };
    const Plan plan = test::inlined(plan_of(moved(0, 0) + moved(1, 1) * 2.0f + moved(2, 2)));
    const std::vector<Move> joins = moves_of(joins_of(*plan.program, *plan.kernels[0]));
    const Plan joined = after(plan, joins);
    CHECK(result(joined) == result(plan));
    return extents(*joined.kernels[0]);
  };
  CHECK(joins_with(3) == std::vector<std::vector<int64_t>>{{3, 21}});
  CHECK(joins_with(16) == std::vector<std::vector<int64_t>>{{3, 7, 16}});
}

TEST_CASE("axes stay apart where anything tells them apart") {
  const Tensor a = test::in("a", {4, 6});
  const auto reason = [](const Tensor& y) {
    const Plan plan = test::inlined(plan_of(y));
    return refusal(plan, test::move("join({}, {})", last_name(plan), 0));
  };
  CHECK(reason(a + test::in("row", {6})).find("to different places") != std::string::npos);
  CHECK(reason(a + test::in("column", {4, 1})).find("to different places") != std::string::npos);
  CHECK(reason(a + test::in("t", {6, 4}).permute({1, 0})).find("to different places") != std::string::npos);
  CHECK(reason(a + test::in("wide", {4, 7}).shrink({{0, 4}, {0, 6}})).find("to different places") !=
        std::string::npos);
  CHECK(reason(a + Tensor::arange(0, 6, 1).cast(DType::F32)).find("is used by itself") != std::string::npos);
  CHECK(reason(test::in("p", {4, 5}).pad({{0, 0}, {0, 1}}) + a) != "");
  CHECK(reason(test::in("s", {4, 6, 3}).sum({1})) != "");
}

TEST_CASE("what is neither an axis of the kernel's nor one of two is refused") {
  const Plan plan = plan_of(test::in("a", {4, 6}) * 2.0f);
  CHECK(refusal(plan, test::move("join({}, {})", last_name(plan), 1)).find("no such axes") !=
        std::string::npos);
  CHECK(refusal(plan, test::move("join({}, {})", last_name(plan), 7)).find("no such axes") !=
        std::string::npos);
  CHECK(refusal(plan, test::move("join({}, {})", "t77", 0)).find("no kernel computes t77") !=
        std::string::npos);
  const Var n("n", 1, 9);
  const Plan runtime = plan_of(Tensor::input("v", {n, 6}) * 2.0f);
  CHECK(refusal(runtime, test::move("join({}, {})", last_name(runtime), 0)) != "");
}

TEST_CASE("a stage that comes into a joined kernel is joined alike") {
  const Tensor x = test::in("x", {1, 5, 7, 3});
  const Plan plan = test::inlined(plan_of(pointwise_convolution(x).relu()));
  REQUIRE(plan.kernels.size() == 2);
  const std::string sum = fmt::format("t{}", plan.kernels[0]->stages[0]), last = last_name(plan);
  const Plan joined = after(plan, moves_of(joins_of(*plan.program, *plan.kernels[1])));

  const Plan fused = after(joined, {test::move("split({}, {})", last + ".i2", 4),
                                    test::move("fuse_at({}, {}, {})", sum, last + ".i2.o", "register")});
  REQUIRE(fused.kernels.size() == 1);
  CHECK(result(fused) == result(plan));

  // Beside a kernel that tells them apart it can't be.
  CHECK(refusal(joined, test::move("fuse_at({}, {}, {})", sum, last, "packed"))
            .find("are joined here and told apart there") != std::string::npos);
}

TEST_CASE("inlined into a joined kernel") {
  const Tensor a = test::in("a", {3, 5, 7});
  const Plan plan = plan_of((a * 2.0f + test::in("b", {3, 1, 1})).exp2());
  const std::string last = last_name(plan);
  Plan joined = after(plan, {test::move("join({}, {})", last, 1)});
  for (size_t s = plan.program->stages.size() - 1; s-- > 0;)
    joined = after(joined, {test::move("inline({})", plan.program->stages[s].buffer->name)});
  CHECK(extents(*joined.kernels[0]) == std::vector<std::vector<int64_t>>{{3, 35}});
  CHECK(result(joined) == result(plan));
}
