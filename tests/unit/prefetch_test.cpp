// The prefetch move: what it asks for, when it is not legal, and that a hint outlives nothing it is about.
#include <doctest/doctest.h>

#include <set>

#include "ast/flat_index.hpp"
#include "support/run_plan.hpp"
#include "support/search_programs.hpp"

using namespace lathe;
using namespace lathe::search;

namespace {

/// c[40, 96] by tiles of 8 x 32: tiles of columns outside, tiles of rows inside, then the reduction.
Plan tiled(const Tensor& b = test::in("b", {50, 96})) {
  const Tensor c = test::in("a", {40, 50}).matmul(b);
  Plan plan = initial_plan(test::lowered(c));
  std::vector<Move> moves;
  for (const char* text : {"inline(t0)", "split(t1.i1, 32)", "split(t1.i1.i, 16)", "split(t1.i0, 8)",
                           "reorder(t1.i1.o, t1.i0.o, t1.r2, t1.i0.i, t1.i1.i.o, t1.i1.i.i)"})
    moves.push_back(parse_move(text));
  return replay(plan.program, moves, test::target());
}

/// How often each line of b is asked for before the tile of columns `tile` is reached, by counting.
struct Asked {
  const ast::Prefetch* hint = nullptr;
  std::vector<const ast::For*> loops;
};
Asked find_hint(const Plan& plan) {
  Asked out;
  for (const auto& kernel : plan.kernels)
    ast::visit(kernel->kernel.body, [&](const ast::Stmt& stmt, const std::vector<const ast::For*>& loops) {
      if (const auto* p = std::get_if<ast::Prefetch>(&stmt.node)) {
        out.hint = p;
        out.loops = loops;
      }
    });
  return out;
}

} // namespace

TEST_CASE("every line that the next tile reads is asked for, once") {
  const Plan plan = tiled();
  const Applied applied =
      apply(plan, parse_move("prefetch_tile(t1, b, t1.i1.o, t1.i0.o, t1.r2, 4)"), test::target());
  REQUIRE_MESSAGE(applied.plan, applied.reason);
  const Asked asked = find_hint(*applied.plan);
  REQUIRE(asked.hint);
  REQUIRE(asked.loops.size() == 4); // columns, rows, reduction, and the condition
  std::map<std::pair<int64_t, int64_t>, int> lines;
  for (int64_t n = 0; n < 2; ++n)
    for (int64_t m = 0; m < 5; ++m)
      for (int64_t r = 0; r < 50; ++r) {
        const Substitution at{{asked.loops[0]->var, n}, {asked.loops[1]->var, m}, {asked.loops[2]->var, r}};
        if (substitute(asked.loops[3]->extent, at).is_const(0)) continue;
        ++lines[{substitute(asked.hint->index[0], at).value(), substitute(asked.hint->index[1], at).value()}];
      }
  CHECK(lines.size() == 2 * 2 * 50); // two tiles of 32 columns, two lines each
  for (const auto& [line, times] : lines) {
    CHECK(times == 1);
    CHECK(line.second % 16 == 0);
    CHECK(line.second >= 32);
    CHECK(line.second < 96);
  }
}

TEST_CASE("of a packed constant's next block every line is asked for, as many in each turn") {
  struct Case {
    int64_t depth;
    const char* wanted;
    int streams;
  };
  for (const auto& [depth, wanted, streams] : {Case{50, "4", 1}, {1000, "4", 4}, {1000, "1", 1}}) {
    CAPTURE(depth);
    CAPTURE(wanted);
    const Tensor w = Tensor::from(std::vector<float>(static_cast<size_t>(depth) * 96, 2.f), {depth, 96});
    Plan plan = initial_plan(test::lowered(test::in("a", {40, depth}).matmul(w)));
    std::vector<std::string> moves{"inline(t0)", "split(t1.i1, 32)", "split(t1.i0, 8)",
                                   "reorder(t1.i1.o, t1.i0.o, t1.r2, t1.i0.i, t1.i1.i)",
                                   "prepack(t1, data1)"};
    moves.push_back(std::string("prefetch_tile(t1, t1.k0, t1.i1.o, t1.i0.o, t1.r2, ") + wanted + ")");
    for (const std::string& text : moves) {
      const Applied applied = apply(plan, parse_move(text), test::target());
      REQUIRE_MESSAGE(applied.plan, applied.reason);
      plan = *applied.plan;
    }
    const Asked asked = find_hint(plan);
    REQUIRE(asked.hint);
    REQUIRE(asked.loops.size() == 3); // columns, rows, reduction
    const int64_t block = depth * 32; // elements
    std::set<int64_t> lines;
    std::vector<std::set<int64_t>> lines_in(5);
    int64_t apart = 0, last = block;
    for (int m = 0; m < 5; ++m)
      for (int64_t r = 0; r < depth; ++r) {
        const Substitution at{{asked.loops[0]->var, 1}, {asked.loops[1]->var, m}, {asked.loops[2]->var, r}};
        std::vector<Expr> index;
        for (const Expr e : asked.hint->index) index.push_back(substitute(e, at));
        const int64_t element = ast::flat_index(*asked.hint->buffer, index).value();
        CHECK(element >= 2 * block);
        CHECK(element < 3 * block + 5 * depth); // steps are rounded up to elements
        apart += std::abs(element - last) > block / 8;
        last = element;
        lines.insert(element / 16);
        lines_in[static_cast<size_t>(m)].insert(element / 16);
      }
    for (int64_t line = 2 * block / 16; line < 3 * block / 16; ++line) CHECK(lines.contains(line));
    for (const auto& some : lines_in)
      CHECK(static_cast<double>(some.size()) ==
            doctest::Approx(static_cast<double>(block) / 16 / 5).epsilon(0.2));
    CHECK((apart > depth) == (streams > 1)); // neighbours in time belong to different streams
    for (const auto& kernel : plan.kernels) ast::verify(kernel->kernel);
  }
}

TEST_CASE("what is read only once is asked for without turns, in the order in which it lies") {
  // Blocks of columns of a packed constant, each multiplied with all rows; and blocks of rows, read across.
  struct Case {
    const char* operand;
    const char* ahead;
    std::vector<const char*> moves;
    int64_t block; // elements
  };
  const std::vector<const char*> columns{"inline(t0)", "split(t1.i1, 32)",
                                         "reorder(t1.i1.o, t1.r2, t1.i0, t1.i1.i)", "prepack(t1, data1)"};
  const std::vector<const char*> rows{"inline(t0)", "split(t1.i0, 8)",
                                      "reorder(t1.i0.o, t1.r2, t1.i0.i, t1.i1)"};
  for (const Case& c : {Case{"t1.k0", "t1.i1.o", columns, 50 * 32}, Case{"a", "t1.i0.o", rows, 50 * 8}}) {
    CAPTURE(c.operand);
    const Tensor w = Tensor::from(std::vector<float>(50 * 96, 2.f), {50, 96});
    Plan plan = initial_plan(test::lowered(test::in("a", {40, 50}).matmul(w)));
    std::vector<std::string> moves(c.moves.begin(), c.moves.end());
    moves.push_back(std::string("prefetch_tile(t1, ") + c.operand + ", " + c.ahead + ", t1.r2, t1.r2, 4)");
    for (const std::string& text : moves) {
      const Applied applied = apply(plan, parse_move(text), test::target());
      REQUIRE_MESSAGE(applied.plan, applied.reason);
      plan = *applied.plan;
    }
    std::vector<const ast::Prefetch*> hints;
    ast::visit(plan.kernels[0]->kernel.body, [&](const ast::Stmt& stmt, const auto&) {
      if (const auto* hint = std::get_if<ast::Prefetch>(&stmt.node)) hints.push_back(hint);
    });
    REQUIRE(!hints.empty());
    const Asked asked = find_hint(plan);
    REQUIRE(asked.loops.size() == 2); // blocks, reduction
    std::set<int64_t> lines;
    int64_t last = 0;
    for (int64_t r = 0; r < 50; ++r)
      for (const ast::Prefetch* hint : hints) {
        const Substitution at{{asked.loops[0]->var, 1}, {asked.loops[1]->var, r}};
        std::vector<Expr> index;
        for (const Expr e : hint->index) index.push_back(substitute(e, at));
        const int64_t element = ast::flat_index(*hint->buffer, index).value();
        CHECK(element > last);
        last = element;
        lines.insert(element / 16);
      }
    for (int64_t line = (2 * c.block + 15) / 16; line < 3 * c.block / 16; ++line) CHECK(lines.contains(line));
    for (const auto& kernel : plan.kernels) ast::verify(kernel->kernel);
  }
  CHECK(test::why_not(tiled(), "prefetch_tile(t1, b, t1.i1.o, t1.r2, t1.r2, 4)") ==
        "b is read again along t1.i0.o, which is to take turns");
}

TEST_CASE("a hint changes nothing and prints like any statement") {
  Plan plan = tiled();
  for (const char* text : {"prefetch_tile(t1, b, t1.i1.o, t1.i0.o, t1.r2, 4)", "pack(t1, b, t1.i1.o, packed)",
                           "accumulate(t1, t1.r2)", "unroll(t1.i0.i)", "vectorise(t1.i1.i.i)"}) {
    Applied applied = apply(plan, parse_move(text), test::target());
    REQUIRE_MESSAGE(applied.plan, applied.reason);
    plan = *applied.plan;
  }
  REQUIRE(find_hint(plan).hint);
  const ast::Kernel& kernel = plan.kernels[0]->kernel;
  ast::verify(kernel);
  const std::string text = ast::print(kernel);
  CHECK(text.find("prefetch b[") != std::string::npos);
  CHECK(ast::print(ast::parse(text)) == text);
  CHECK(ast::structural_hash(ast::parse(text)) == ast::structural_hash(kernel));
  CHECK(find_hint({plan.program, {plan.kernels[0]}, {}, {}}).hint->buffer->name == "b");

  test::Memory want = test::random_inputs(*plan.program, 3), got = want;
  test::run_plan(initial_plan(plan.program), want, nullptr);
  test::run_plan(plan, got, nullptr);
  CHECK(test::difference(*plan.program, got, want, 50) == "");
}

TEST_CASE("where a hint makes no sense the reason is given") {
  const Plan plan = tiled();
  CHECK(test::why_not(plan, "prefetch_tile(t1, a, t1.i1.o, t1.i0.o, t1.r2, 4)") ==
        "a does not move along t1.i1.o");
  CHECK(test::why_not(plan, "prefetch_tile(t1, b, t1.i0.o, t1.r2, t1.i0.i, 4)") ==
        "b does not move along t1.i0.o");
  CHECK(test::why_not(plan, "prefetch_tile(t1, b, t1.i1.o, t1.r2, t1.i1.i.o, 4)") == "b moves along t1.r2");
  CHECK(test::why_not(plan, "prefetch_tile(t1, x, t1.i1.o, t1.i0.o, t1.r2, 4)") ==
        "the nest of t1 under t1.i1.o does not read x");
  CHECK(test::why_not(plan, "prefetch_tile(t1, b, t1.i1.o, t1.r2, t1.i0.o, 4)") ==
        "t1.r2 does not lie between t1.i1.o and t1.i0.o");
  CHECK(test::why_not(plan, "prefetch_tile(t1, b, t1.i9, t1.i0.o, t1.r2, 4)") == "there is no loop t1.i9");
  CHECK(test::why_not(plan, "prefetch_tile(t1, b, t1.i1.o, t1.i0.o, t1.r2, 0)") ==
        "0 streams, expected 1 to 64");
  CHECK(test::why_not(plan, "prefetch_tile(t1, b, t1.i1.o, t1.i0.o, t1.r2, 65)") ==
        "65 streams, expected 1 to 64");
  Target opencl = test::target();
  opencl.device = "opencl";
  opencl.groups = true;
  CHECK(apply(plan, parse_move("prefetch_tile(t1, b, t1.i1.o, t1.i0.o, t1.r2, 4)"), opencl)
            .reason.find("opencl has no prefetch") != std::string::npos);
}

TEST_CASE("a hint about a buffer that is gone goes with it") {
  // The product's second operand is computed by a stage; hints about it end when that stage is inlined.
  const Tensor b = test::in("b", {50, 96}) + 1.0f;
  const Tensor c = test::in("a", {40, 50}).matmul(b);
  Plan plan = initial_plan(test::lowered(c));
  const auto product = [](const Plan& p) {
    for (const auto& k : p.kernels)
      for (int s : k->stages)
        if (p.program->stages[s].is_reduction) return s;
    return -1;
  }(plan);
  const std::string t = "t" + std::to_string(product);
  // Everything between the sum's operand and the inputs is inlined but for the stage that adds 1.
  std::string source;
  for (const auto& stage : plan.program->stages)
    if (stage.node->shape.size() == 2 && !stage.is_reduction) source = stage.buffer->name;
  REQUIRE(!source.empty());
  for (const auto& stage : plan.program->stages) {
    if (stage.is_output || stage.is_reduction || stage.buffer->name == source) continue;
    if (Applied a = apply(plan, parse_move("inline(" + stage.buffer->name + ")"), test::target()); a.plan)
      plan = *a.plan;
  }
  for (const std::string& text :
       {"split(" + t + ".i1, 16)", "reorder(" + t + ".i1.o, " + t + ".i0, " + t + ".r2, " + t + ".i1.i)",
        "prefetch_tile(" + t + ", " + source + ", " + t + ".i1.o, " + t + ".i0, " + t + ".r2, 4)"}) {
    Applied a = apply(plan, parse_move(text), test::target());
    REQUIRE_MESSAGE(a.plan, text << ": " << a.reason);
    plan = *a.plan;
  }
  REQUIRE(find_hint(plan).hint);
  Applied a = apply(plan, parse_move("inline(" + source + ")"), test::target());
  REQUIRE_MESSAGE(a.plan, a.reason);
  CHECK(!find_hint(*a.plan).hint);
  for (const auto& kernel : a.plan->kernels) ast::verify(kernel->kernel);
}

TEST_CASE("a hint that loses its purpose is gone for the next move of a list, too") {
  const Plan start = tiled(Tensor::from(std::vector<float>(50 * 96, 2.f), {50, 96}));
  Plan plan = start;
  std::vector<Move> moves;
  for (const char* text : {"prefetch_tile(t1, data1, t1.i1.o, t1.i0.o, t1.r2, 4)", "prepack(t1, data1)",
                           "reorder(t1.i1.o, t1.i0.o, t1.i0.i, t1.r2, t1.i1.i.o, t1.i1.i.i)"}) {
    moves.push_back(parse_move(text));
    const Applied applied = apply(plan, moves.back(), test::target());
    REQUIRE_MESSAGE(applied.plan, applied.reason);
    plan = *applied.plan;
    CHECK((find_hint(plan).hint != nullptr) == (moves.back().kind == MoveKind::PrefetchTile));
  }
  const Applied list = apply(start, moves, test::target());
  REQUIRE_MESSAGE(list.plan, list.reason);
  const Plan& again = *list.plan;
  REQUIRE(again.kernels.size() == plan.kernels.size());
  for (size_t k = 0; k < plan.kernels.size(); ++k) CHECK(again.kernels[k]->hash == plan.kernels[k]->hash);
}
