// Suggesters: what they propose for the kernels they are made for, mostly legal, always data.
#include <algorithm>
#include <set>

#include <doctest/doctest.h>

#include "search/cost/features.hpp"
#include "search/moves/plan.hpp"
#include "search/suggest/suggest.hpp"
#include "search/suggest/tile.hpp"
#include "support/moves.hpp"
#include "support/search_programs.hpp"

using namespace lathe;
using namespace lathe::search;

namespace {

struct Counted {
  std::vector<Proposal> proposals;
  size_t legal = 0;
};

Counted propose(Suggester suggest, const Plan& plan, size_t k, const Target& target, bool thorough = true) {
  Features features;
  read_features(plan.kernels[k]->kernel, target, features);
  const MachineProfile machine = test::machine();
  Counted c;
  c.proposals = suggest({plan, *plan.kernels[k], features, target, machine, thorough, {}, true});
  for (const Proposal& p : c.proposals) {
    CHECK(!p.moves.empty());
    CHECK(!p.why.empty());
    c.legal += apply(plan, p.moves, target).plan.has_value();
    for (const Move& m : p.moves) CHECK(parse_move(to_string(m)) == m);
  }
  return c;
}

/// With every elementwise stage inlined, as one would start loop moves from.
Plan inlined(const Plan& start) {
  const Counted c = propose(suggest_inline, start, 0, test::target());
  if (c.proposals.empty()) return start;
  Applied applied = apply(start, c.proposals[0].moves, test::target());
  REQUIRE(applied.plan);
  return *applied.plan;
}
Plan inlined(const Tensor& y) { return inlined(initial_plan(test::lowered(y))); }

/// The kernel that holds the last reduction.
size_t reduction_of(const Plan& plan) {
  for (size_t k = plan.kernels.size(); k-- > 0;)
    for (int s : plan.kernels[k]->stages)
      if (plan.program->stages[s].is_reduction) return k;
  FAIL("no reduction");
  return 0;
}

bool uses(const Counted& c, MoveKind kind) {
  for (const Proposal& p : c.proposals)
    for (const Move& m : p.moves)
      if (m.kind == kind) return true;
  return false;
}

} // namespace

TEST_CASE("inline: a chain of elementwise stages becomes one kernel in one proposal") {
  const Tensor a = test::in("a", {64}), b = test::in("b", {64});
  const Plan start = initial_plan(test::lowered(((a + b) * a).relu() + b));
  REQUIRE(start.kernels.size() > 2);
  CHECK(inlined(((a + b) * a).relu() + b).kernels.size() == 1);
}

TEST_CASE("inline: what would be computed many times over stays a kernel of its own") {
  // gelu(x) feeds every column of the product: a macro-move that keeps it must be among the first.
  const Tensor y = test::in("x", {64, 64}).gelu().matmul(test::in("w", {64, 64}));
  const Plan plan = inlined(y);
  CHECK(plan.kernels[reduction_of(plan)]->inlined.size() == 1); // the products, not the gelu
  CHECK(plan.kernels.size() <= 3);
}

TEST_CASE("inline: a deep diamond is followed once, not once for every path") {
  Tensor t = test::in("a", {128});
  for (int i = 0; i < 40; ++i) t = t.sin() + t.square();
  CHECK(inlined(t).kernels.size() <= 2);
}

TEST_CASE("inline: shifted reads don't multiply without end") {
  Tensor t = test::in("a", {512});
  for (int i = 0; i < 16; ++i) t = (t.shrink({{0, 512 - i - 1}}) + t.shrink({{1, 512 - i}})).sin();
  const Plan plan = inlined(t);
  CHECK(plan.kernels.size() >= 3); // all in one would compute 2^16 copies of the first stage
}

TEST_CASE("tile: a product gets register tiles, packed and not") {
  const Plan plan = inlined(test::in("a", {96, 80}).matmul(test::in("b", {80, 112})));
  const Counted c = propose(suggest_tile, plan, reduction_of(plan), test::target());
  CHECK(c.proposals.size() > 20);
  CHECK(c.legal * 10 >= c.proposals.size() * 8);
  CHECK(uses(c, MoveKind::Pack));
  CHECK(uses(c, MoveKind::Accumulate));
  CHECK(uses(c, MoveKind::Vectorise));
}

TEST_CASE("tile: a convolution and a product of three axes too, an elementwise kernel not") {
  const Plan conv =
      inlined(test::in("x", {1, 8, 20, 40}).conv2d(test::in("w", {16, 8, 3, 3}), {}, {.padding = {1}}));
  CHECK(propose(suggest_tile, conv, reduction_of(conv), test::target()).legal > 10);
  const Plan batch = inlined(test::in("a", {4, 32, 32}).matmul(test::in("b", {4, 32, 48})));
  CHECK(propose(suggest_tile, batch, reduction_of(batch), test::target()).legal > 10);
  const Plan plain = initial_plan(test::lowered(test::in("a", {64, 64}) + 1.0f));
  CHECK(propose(suggest_tile, plain, 0, test::target()).proposals.empty());
}

TEST_CASE("tile: an operand is read line by line, whichever of the reducing loops runs along its lines") {
  // Channels last: along the reduction's loops r1 (channels), r2 and r3 (the window) x moves by 1, 40 * 8
  // and 8.
  const Tensor w = Tensor::from(std::vector<float>(16 * 8 * 9, 1.0f), {16, 8, 3, 3});
  const Plan plan = inlined(test::in("x", {1, 20, 40, 8}).permute({0, 3, 1, 2}).conv2d(w));
  const size_t k = reduction_of(plan);
  std::vector<LoopHandle> reducing; // as the nest has them
  ast::visit(plan.kernels[k]->kernel.body, [&](const ast::Stmt& stmt, const std::vector<const ast::For*>&) {
    const auto* loop = std::get_if<ast::For>(&stmt.node);
    const LoopHandle handle = loop ? plan.kernels[k]->handles.loop(*loop) : LoopHandle();
    if (handle && handle.part() == Part::Reducing) reducing.push_back(handle);
  });
  REQUIRE(reducing.size() == 3);
  const Counted c = propose(suggest_tile, plan, k, test::target(), false);
  REQUIRE(!c.proposals.empty());
  for (const Proposal& p : c.proposals)
    for (const Move& m : p.moves) {
      if (m.kind != MoveKind::Reorder) continue;
      std::vector<LoopHandle> order;
      for (const Argument& argument : m.arguments)
        if (const auto loop = std::get<LoopHandle>(argument);
            std::find(reducing.begin(), reducing.end(), loop) != reducing.end())
          order.push_back(loop);
      const bool by_steps = order == std::vector<LoopHandle>{reducing[1], reducing[2], reducing[0]};
      CHECK(by_steps);
    }
}

TEST_CASE("tile: constants are read once, where one tile can hold all rows") {
  const Tensor w = Tensor::from(std::vector<float>(64 * 96, 1.0f), {64, 96});
  const auto heights = [&](int64_t rows) {
    const Plan plan = inlined(test::in("a", {rows, 64}).matmul(w));
    std::set<std::string> whys;
    for (const Proposal& p : propose(suggest_tile, plan, reduction_of(plan), test::target(), false).proposals)
      whys.insert(p.why.substr(0, p.why.find(',')));
    return whys;
  };
  CHECK(heights(16).contains("tile of 16 x 1 vectors"));
  for (const std::string& why : heights(160)) CHECK(why.find(" x 1 vectors") == std::string::npos);
}

TEST_CASE(
    "tile: a constant's next block is asked for where the program's constants pass through the caches") {
  const Tensor w = Tensor::from(std::vector<float>(256 * 1024, 1.0f), {256, 1024});
  const Tensor product = test::in("a", {49, 256}).matmul(w);
  const auto asking = [&](Suggester suggest, const Tensor& y, int64_t constant_bytes, bool groups = false) {
    const Plan plan = inlined(y);
    Target target = test::target();
    target.groups = groups;
    target.constant_bytes = constant_bytes;
    size_t count = 0;
    for (const Proposal& p : propose(suggest, plan, plan.kernels.size() - 1, target, false).proposals)
      for (const Move& m : p.moves)
        if (m.kind == MoveKind::PrefetchTile &&
            std::get<BufferHandle>(m.arguments[1]).part() == Part::Constant) {
          const Applied applied = apply(plan, p.moves, target);
          CHECK_MESSAGE(applied.plan, applied.reason);
          ++count;
        }
    return count;
  };
  const int64_t few = 1 << 20, many = 1 << 30;
  CHECK(asking(suggest_tile, product, few) == 0);
  CHECK(asking(suggest_tile, product, many) > 2);
  CHECK(asking(suggest_tile, product, many, true) == 0); // OpenCL C has no such hints
  CHECK(asking(suggest_fused_tile, (product + test::in("b", {1024})).relu(), few) == 0);
  CHECK(asking(suggest_fused_tile, (product + test::in("b", {1024})).relu(), many) > 2);
}

TEST_CASE("fused tile: the product goes under the tile loops of what follows it") {
  const Plan plan =
      inlined((test::in("a", {64, 48}).matmul(test::in("b", {48, 96})) + test::in("c", {96})).relu());
  REQUIRE(plan.kernels.size() == 2);
  const Counted c = propose(suggest_fused_tile, plan, 1, test::target());
  CHECK(c.proposals.size() > 20);
  CHECK(c.legal * 10 >= c.proposals.size() * 8);
  for (const Proposal& p : c.proposals)
    if (Applied applied = apply(plan, p.moves, test::target()); applied.plan)
      CHECK(applied.plan->kernels.size() == 1);
}

TEST_CASE("fused tile: a product goes under the loops inside a border, which gets nests of its own") {
  const Tensor x = Tensor::input("x", {1, 32, 14, 14}), w = Tensor::input("w", {64, 32, 1, 1});
  Plan plan = inlined(x.conv2d(w).relu().pad({{0, 0}, {0, 0}, {1, 2}, {3, 0}}).contiguous());
  REQUIRE(plan.kernels.size() == 3); // the sum, its epilogue, and the padded value
  const std::string epilogue = "t" + std::to_string(plan.kernels[1]->stages[0]);
  const Applied joined = apply(plan, test::move("inline({})", epilogue), test::target());
  REQUIRE(joined.plan);
  plan = *joined.plan;
  const Counted c = propose(suggest_fused_tile, plan, 1, test::target());
  CHECK(uses(c, MoveKind::Border));
  CHECK(c.legal > 0);
  for (const Proposal& p : c.proposals)
    if (Applied applied = apply(plan, p.moves, test::target()); applied.plan)
      CHECK(applied.plan->kernels.size() == 1);
  const auto reason = [&](const std::string& stage) {
    return apply(plan, test::move("border({})", stage), test::target()).reason;
  };
  const std::string sum = "t" + std::to_string(plan.kernels[0]->stages[0]);
  CHECK(reason(sum).find("no plain nest of " + sum + " is 0 outside of a box") != std::string::npos);
  const std::string padded = "t" + std::to_string(plan.kernels[1]->stages[0]);
  const Applied once = apply(plan, test::move("border({})", padded), test::target());
  REQUIRE(once.plan);
  // A slab on three sides (nothing is left of the fourth), and the box.
  CHECK(once.plan->kernels[1]->kernel.body.size() == 4);
  CHECK(apply(*once.plan, test::move("border({})", padded), test::target()).reason.find("no plain nest") !=
        std::string::npos);
}

TEST_CASE("fuse: the rows of a softmax in one pass") {
  const Plan plan = inlined(test::in("a", {64, 80}).softmax(-1));
  REQUIRE(plan.kernels.size() >= 2);
  bool one = false;
  for (size_t k = 0; k < plan.kernels.size(); ++k)
    for (const Proposal& p : propose(suggest_fuse, plan, k, test::target()).proposals)
      if (Applied applied = apply(plan, p.moves, test::target()); applied.plan)
        one |= applied.plan->kernels.size() == 1;
  CHECK(one);
}

TEST_CASE("fuse: Winograd's products with what is transformed for them") {
  const Tensor x = test::in("x", {1, 64, 30, 30});
  const Plan start = initial_plan(test::lowered(x.conv2d(test::in("w", {64, 64, 3, 3}))));
  const std::string sum = start.program->stages[start.kernels[reduction_of(start)]->stages[0]].buffer->name;
  const Applied applied = apply(start, test::move("winograd({}, {})", sum, 4), test::target());
  REQUIRE_MESSAGE(applied.plan, applied.reason);
  const Plan plan = inlined(*applied.plan);
  size_t found = 0;
  for (size_t k = 0; k < plan.kernels.size(); ++k)
    for (const Proposal& p : propose(suggest_fuse, plan, k, test::target(), false).proposals) {
      const Applied fused = apply(plan, p.moves, test::target());
      found += fused.plan && plan.kernels.size() - fused.plan->kernels.size() == 2;
    }
  CHECK(found > 0);
}

TEST_CASE("tile: what the next tile reads is asked for by most tiles of rows, not by the first few") {
  const Plan plan = inlined(test::in("a", {512, 400}).matmul(test::in("b", {400, 512})));
  size_t looked_at = 0;
  for (const Proposal& p : propose(suggest_tile, plan, reduction_of(plan), test::target(), false).proposals) {
    const auto asks = std::find_if(p.moves.begin(), p.moves.end(),
                                   [](const Move& m) { return m.kind == MoveKind::PrefetchTile; });
    const Applied applied = apply(plan, p.moves, test::target());
    if (asks == p.moves.end() || !applied.plan) continue;
    CAPTURE(p.why);
    std::set<int64_t> asking;
    int64_t tiles = 0;
    ast::visit(applied.plan->kernels[0]->kernel.body,
               [&](const ast::Stmt& stmt, const std::vector<const ast::For*>& loops) {
                 if (!std::holds_alternative<ast::Prefetch>(stmt.node)) return;
                 for (const ast::For* rows : loops)
                   if (rows->var.name() == to_string(asks->arguments[3])) {
                     tiles = rows->extent.hi();
                     for (int64_t m = 0; m < tiles; ++m)
                       if (!substitute(loops.back()->extent, {{rows->var, Expr(m)}}).is_const(0))
                         asking.insert(m);
                   }
               });
    ++looked_at;
    CHECK(2 * static_cast<int64_t>(asking.size()) >= tiles);
  }
  CHECK(looked_at > 0);
}

TEST_CASE("vectorise: a long reduction in parts side by side, each a stream of its own") {
  const auto in_parts = [](const Tensor& y) {
    size_t count = 0;
    const Plan plan = inlined(y);
    for (const Proposal& p : propose(suggest_vectorise, plan, 0, test::target()).proposals) {
      if (p.why.find("parts side by side") == std::string::npos) continue;
      const Applied applied = apply(plan, p.moves, test::target());
      CHECK_MESSAGE(applied.plan, applied.reason);
      ++count;
    }
    return count;
  };
  const auto most = [](const Shape& shape) {
    return graph::reduce_op(Op::Max, test::in("a", shape), {0});
  }; // as one reduction
  CHECK(in_parts(most({1 << 20})) == 2);
  CHECK(in_parts(most({1000})) == 0);
  CHECK(in_parts(most({1 << 20, 16})) == 0);
}

TEST_CASE("vectorise: contiguous loops and partial results of reductions") {
  const Plan sum = inlined(test::in("a", {32, 1000}).sum(1, true));
  const Counted s = propose(suggest_vectorise, sum, 0, test::target());
  CHECK(s.legal == s.proposals.size());
  CHECK(uses(s, MoveKind::Accumulate));
  const Plan columns = inlined(test::in("a", {1000, 64}).sum(0, true));
  const Counted c = propose(suggest_vectorise, columns, 0, test::target());
  CHECK(c.legal > 0);
  CHECK(!uses(c, MoveKind::Accumulate));
}

TEST_CASE("reorder: blocks where load and store are contiguous along different loops") {
  const Plan plan = initial_plan(test::lowered(test::in("a", {256, 256}).transpose().contiguous()));
  const Counted c = propose(suggest_reorder, plan, 0, test::target());
  CHECK(c.proposals.size() >= 4);
  CHECK(c.legal == c.proposals.size());
}

TEST_CASE("transpose: squares in registers where load and store are contiguous along different loops") {
  const Plan plan = initial_plan(test::lowered(test::in("a", {200, 256}).transpose().contiguous()));
  const Counted c = propose(suggest_transpose, plan, 0, test::target());
  CHECK(c.proposals.size() >= 3);
  CHECK(c.legal == c.proposals.size());
  CHECK(uses(c, MoveKind::Pack));
  const Plan plain = initial_plan(test::lowered(test::in("a", {256, 256}) + 1.0f));
  CHECK(propose(suggest_transpose, plain, 0, test::target()).proposals.empty());
}

TEST_CASE("rows: sums across rows, not along them") {
  const Plan across = inlined(test::in("a", {300, 256}).sum({0}));
  const Counted c = propose(suggest_rows, across, reduction_of(across), test::target());
  CHECK(c.proposals.size() >= 8); // it is a stream: with several vectors of each row, too
  CHECK(c.legal == c.proposals.size());
  // What is read again and again is no stream: single vectors only.
  const Plan product = inlined(test::in("a", {4, 300}).matmul(test::in("b", {300, 256})));
  const Counted p = propose(suggest_rows, product, reduction_of(product), test::target());
  CHECK(p.proposals.size() == 3);
  CHECK(p.legal == p.proposals.size());
  const Plan along = inlined(test::in("a", {300, 256}).sum({1}));
  CHECK(propose(suggest_rows, along, reduction_of(along), test::target()).proposals.empty());
}

TEST_CASE("prefetch: inputs larger than the caches, rows and streams") {
  const auto proposals = [](const Tensor& y) {
    const Plan plan = inlined(y);
    const size_t k = reduction_of(plan);
    Applied vectors =
        apply(plan, {test::move("split({}, {})", "t0.r1", 16), test::move("vectorise({})", "t0.r1.i")},
              test::target());
    REQUIRE(vectors.plan);
    const Counted c = propose(suggest_prefetch, *vectors.plan, k, test::target());
    CHECK(c.legal == c.proposals.size());
    return c.proposals.size();
  };
  CHECK(proposals(test::in("a", {4096, 1024}).sum({1})) >= 3);
  CHECK(proposals(test::in("a", {16, 1024}).sum({1})) == 0);
}

TEST_CASE("prefetch: one move for all that a nest reads of a buffer") {
  const Tensor a = test::in("a", {4096, 1024});
  Tensor sum = a.shrink({{0, 4096}, {0, 1008}});
  for (int64_t k = 1; k < 16; ++k) sum = sum + a.shrink({{0, 4096}, {k, 1008 + k}});
  const Plan plan = inlined(sum);
  REQUIRE(plan.kernels.size() == 1);
  const Counted c = propose(suggest_prefetch, plan, 0, test::target());
  CHECK(!c.proposals.empty());
  CHECK(c.legal == c.proposals.size());
  for (const Proposal& p : c.proposals) {
    CHECK(p.moves.size() == 1);
    CHECK(std::count_if(c.proposals.begin(), c.proposals.end(),
                        [&](const Proposal& other) { return other.moves == p.moves; }) == 1);
  }
}

TEST_CASE("parallel: only with threads, only where iterations are independent") {
  const Plan plan = inlined(test::in("a", {64, 1000}).sum(1, true));
  CHECK(propose(suggest_parallel, plan, 0, test::target(1)).proposals.empty());
  const Counted c = propose(suggest_parallel, plan, 0, test::target(2));
  CHECK(!c.proposals.empty());
  CHECK(c.legal == c.proposals.size());
}

TEST_CASE("stream: outputs larger than the caches, and only those") {
  const Plan large = initial_plan(test::lowered(test::in("a", {int64_t{1} << 23}) + 1.0f));
  const Counted c = propose(suggest_stream, large, 0, test::target());
  REQUIRE(c.proposals.size() == 1);
  CHECK(c.legal == 1);
  const Plan small = initial_plan(test::lowered(test::in("a", {1024}) + 1.0f));
  CHECK(propose(suggest_stream, small, 0, test::target()).proposals.empty());
}

TEST_CASE("opencl: work-groups, work-items and local memory where the target has them") {
  const Plan plan = inlined(test::in("a", {64, 64}).matmul(test::in("b", {64, 64})));
  CHECK(propose(suggest_opencl, plan, 0, test::target()).proposals.empty());
  Target target = test::target();
  target.device = "opencl";
  target.groups = true;
  const Counted c = propose(suggest_opencl, plan, 0, target);
  CHECK(c.legal >= 3);
  bool local = false;
  for (const Proposal& p : c.proposals)
    for (const Move& m : p.moves)
      local |= m.kind == MoveKind::Pack && m.arguments.back() == Argument(ast::Scope::Local) &&
               apply(plan, p.moves, target).plan;
  CHECK(local);
}

TEST_CASE("a tile's operands are as wide as their elements") {
  for (const DType dtype : {DType::I8, DType::F16, DType::BF16, DType::F32, DType::F64}) {
    const std::string name = to_string(dtype);
    CAPTURE(name);
    const Tensor a = Tensor::input("a", {128, 64}, dtype), b = Tensor::input("b", {64, 96}, dtype);
    // What f16 and bf16 are multiplied in is f32: the suggester may leave that a stage of its own.
    Plan plan = initial_plan(test::lowered(a.matmul(b)));
    for (bool more = true; more;) {
      more = false;
      for (const lower::Stage& stage : plan.program->stages)
        if (Applied next = apply(plan, test::move("inline({})", stage.buffer->name), test::target());
            next.plan) {
          plan = std::move(*next.plan);
          more = true;
        }
    }
    const KernelPlan& kernel = *plan.kernels[reduction_of(plan)];
    Features features;
    read_features(kernel.kernel, test::target(), features);
    const auto problems = read_tile_problems(features, *plan.program, kernel, test::target());
    REQUIRE(problems.size() == 1);
    REQUIRE(problems[0].operands.size() == 2);
    for (const auto& operand : problems[0].operands) CHECK(operand.element_bytes == size_of(dtype));
  }
}

TEST_CASE("hints ask for whole lines, whatever the dtype") {
  const auto step = [](int lanes, int64_t bytes) {
    TileProblem p;
    p.result = BufferHandle::of_stage(0);
    p.lanes = lanes;
    const LoopHandle reducing = p.result.loop(Part::Reducing, 2);
    p.out = {{axis_loop(0, 0), {}, 128, 128, 512}, {axis_loop(0, 1), {}, 512, 512, 1}};
    p.reduce = {{reducing, {}, 512, 512, 0}};
    p.operands = {{BufferHandle::of_input("a"), true, false, bytes, {512, 0}, {1}},
                  {BufferHandle::of_input("b"), true, false, bytes, {0, 1}, {512}}};
    TileChoice c;
    c.vector = 1, c.rows = 0, c.vectors = 2, c.height = 8, c.hint_streams = 1;
    int64_t factor = 0;
    for (const Move& m : tile_moves(p, c).moves)
      if (m.kind == MoveKind::Split && m.arguments[0] == Argument(reducing))
        factor = std::get<int64_t>(m.arguments[1]);
    return factor;
  };
  // Sixteen tiles of rows share the lines that one step of the next tile reads: two, or one of f16.
  CHECK(step(16, 4) == 8);
  CHECK(step(8, 8) == 8);
  CHECK(step(16, 2) == 16);
}

TEST_CASE("stream: large results past the caches where the stores fill lines") {
  const Plan copy = initial_plan(test::lowered(test::in("x", {4096, 4096}) + 1.0));
  CHECK(uses(propose(suggest_stream, copy, 0, test::target()), MoveKind::Stream));
  // Along a column each store is in a line of its own.
  const Applied turned = apply(copy, {test::move("reorder(t0.i1, t0.i0)")}, test::target());
  REQUIRE_MESSAGE(turned.plan, turned.reason);
  CHECK(propose(suggest_stream, *turned.plan, 0, test::target()).proposals.empty());
}

TEST_CASE("inline: bytes that many products read as floats are stored as floats") {
  const auto kernels = [](int64_t columns) {
    const Tensor x = Tensor::input("x", {64, 96}, DType::Bool).cast(DType::F32);
    const Plan plan = inlined(x.matmul(test::in("w", {96, columns})));
    return plan.kernels.size();
  };
  CHECK(kernels(4) == 1); // each is converted four times
  CHECK(kernels(64) == 2);
}
