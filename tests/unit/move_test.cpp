// Handles and moves as data: their text, what is refused, and the names that moves give to what they make.
#include <set>
#include <thread>

#include <doctest/doctest.h>

#include "lathe/error.hpp"
#include "search/moves/draw.hpp"
#include "search/suggest/script.hpp"
#include "support/moves.hpp"
#include "support/programs.hpp"
#include "support/search_programs.hpp"

using namespace lathe;
using namespace lathe::search;

TEST_CASE("a handle is its name") {
  for (const char* text :
       {"t5.i1", "t5.r2", "t5.z0", "t5.i1.o", "t5.i1.o.i.i", "t5.a0.z1", "t5.a0.w0", "t5.a1.q0", "t5.a0.f2",
        "t5.p1.c1", "t5.b3.i0.o", "t5.s0", "t5.first", "t5.later", "t5.a0.a1.z0", "t12345678.i0"}) {
    CAPTURE(text);
    const auto loop = parse_loop(text);
    REQUIRE(loop);
    CHECK(loop->name() == text);
    CHECK(*loop == *parse_loop(text));
    CHECK(!parse_buffer(text));
    CHECK(!parse_stage(text));
  }
  for (const char* text :
       {"t5", "t0", "t5.a0", "t5.a0.a1", "t5.p2", "t5.k1", "x", "weights_2", "t", "tx", "t123456789"}) {
    CAPTURE(text);
    const auto buffer = parse_buffer(text);
    REQUIRE(buffer);
    CHECK(buffer->name() == text);
    CHECK(!parse_loop(text));
  }
  for (const char* text :
       {"", ".", "t5.", "t5..o", "t5.i", "t5.o1", "t5.i1.r2", "t5.b0.o", "t5.first1", "t5.i1x", "t5.y1",
        "t5.i-1", "t5.i1.", "x.i0", "5", "a b", "t5 .i1", "t5.i999999999"}) {
    CAPTURE(text);
    CHECK(!parse_loop(text));
    CHECK(!parse_buffer(text));
  }
  CHECK(parse_stage("t7")->index == 7);
}

TEST_CASE("handles of parts") {
  const LoopHandle loop = axis_loop(3, 1);
  CHECK(loop.name() == "t3.i1");
  CHECK(loop.outer().inner().name() == "t3.i1.o.i");
  CHECK(loop.outer().setting().name() == "t3.z1.o");
  CHECK(loop.outer().in_border(2).name() == "t3.b2.i1.o");
  CHECK(loop.outer().is_part_of(loop));
  CHECK(!loop.is_part_of(loop.outer()));
  CHECK(!axis_loop(3, 11).is_part_of(loop)); // a name that begins alike
  CHECK(!axis_loop(31, 1).is_part_of(loop));
  CHECK(LoopHandle(loop.outer().with_root(BufferHandle::of_stage(9))).name() == "t9.i1.o");
  CHECK(loop.stage() == 3);
  CHECK(BufferHandle::of_input("x").stage() == -1);
  CHECK(BufferHandle::of_input("x").hash() != BufferHandle::of_input("y").hash());
}

TEST_CASE("threads that name the same loops get the same handles") {
  constexpr int kThreads = 4, kStages = 500;
  std::vector<std::vector<LoopHandle>> made(kThreads);
  std::vector<std::thread> threads;
  for (std::vector<LoopHandle>& own : made)
    threads.emplace_back([&own] {
      for (int stage = 0; stage < kStages; ++stage) own.push_back(axis_loop(stage + 1000, 0).outer().inner());
    });
  for (std::thread& thread : threads) thread.join();
  for (const std::vector<LoopHandle>& own : made) CHECK((own == made[0]));
}

TEST_CASE("every move's text is read back, whatever its arguments") {
  const Plan plan =
      initial_plan(test::lowered(test::in("a", {8, 12}).matmul(test::in("b", {12, 16})).relu()));
  Target target = test::target();
  target.groups = true;
  std::mt19937_64 random(1);
  std::set<MoveKind> kinds;
  for (int i = 0; i < 3000; ++i) {
    Draw draw(plan, target, random);
    const Move move = i % 10 ? draw.other() : draw.rewrite();
    const std::string text = to_string(move);
    CAPTURE(text);
    CHECK(parse_move(text) == move);
    kinds.insert(move.kind);
  }
  CHECK(kinds.size() == move_table().size());
}

TEST_CASE("a text that is no move says what was expected") {
  const auto reason = [](const char* text) {
    try {
      parse_move(text);
    } catch (const Error& error) {
      CHECK(error.kind() == ErrorKind::Syntax);
      return std::string(error.what());
    }
    return std::string();
  };
  const auto says = [&](const char* text, const char* what) {
    CAPTURE(text);
    const std::string why = reason(text);
    CHECK_MESSAGE(why.find(what) != std::string::npos, why);
  };
  says("", "name(arguments)");
  says("split", "name(arguments)");
  says("split(t1.i0, 4", "name(arguments)");
  says("slice(t1.i0, 4)", "one of winograd, strassen, three_bytes, innermost, inline, fuse_at, split");
  says("split(t1.i0)", "2 arguments");
  says("split(t1.i0, 4, 5)", "2 arguments");
  says("split(t1, 4)", "a loop such as t5.i1 as argument 1");
  says("split(x, 4)", "a loop such as t5.i1 as argument 1");
  says("split(t1.i0, four)", "a number as argument 2");
  says("split(t1.i0, -4)", "a number as argument 2");
  says("split(t1.i0, 9999999999999)", "a number as argument 2");
  says("inline(t1.i0)", "a stage such as t5 as argument 1");
  says("fuse_at(t1, x, packed)", "root, a stage such as t5, or a loop such as t5.i1 as argument 2");
  says("fuse_at(t1, root, global)", "a scope: packed, register or local as argument 3");
  says("bind(t1.i0, grid, 0)", "group or local as argument 2");
  says("pack(t1, t1.i0, t1.i0, packed)", "the name of a buffer as argument 2");
  says("accumulate(t1)", "at least 2 arguments");
  says("accumulate(t1, t1.i0, 4)", "a loop such as t5.i1 as argument 3");
  says("winograd(t1, t2)", "a number as argument 2");
  CHECK(to_string(parse_move("  winograd( t3 ,t9, 4 ) ")) == "winograd(t3, t9, 4)");
  CHECK(to_string(parse_move("fuse_at(t3, t5, local)")) == "fuse_at(t3, t5, local)");
}

TEST_CASE("moves in terms of other stages and inputs") {
  const auto root = [](BufferHandle b) {
    return b.is_stage() ? BufferHandle::of_stage(b.stage() + 10) : BufferHandle::of_input(b.name() + "_2");
  };
  for (const auto& [text, other] : std::initializer_list<std::pair<const char*, const char*>>{
           {"split(t3.i0.o, 4)", "split(t13.i0.o, 4)"},
           {"pack(t3, x, t3.i0, packed)", "pack(t13, x_2, t13.i0, packed)"},
           {"fuse_at(t1, root, packed)", "fuse_at(t11, root, packed)"},
           {"fuse_at(t1, t2, packed)", "fuse_at(t11, t12, packed)"},
           {"fuse_at(t1, t2.i0, packed)", "fuse_at(t11, t12.i0, packed)"},
           {"prefetch_tile(t1, t1.k0, t1.i0, t1.i1, t1.r2, 4)",
            "prefetch_tile(t11, t11.k0, t11.i0, t11.i1, t11.r2, 4)"},
           {"accumulate(t3.a0, t3.r0, t3.r1)", "accumulate(t13.a0, t13.r0, t13.r1)"}})
    CHECK(to_string(in_terms_of(parse_move(text), root)) == other);
}

TEST_CASE("a script knows what its moves will make") {
  const Plan plan = initial_plan(test::lowered(test::in("a", {40, 96}).sum({1})));
  const LoopHandle row = axis_loop(0, 0), column = BufferHandle::of_stage(0).loop(Part::Reducing, 1);
  Script script(*plan.kernels[0]);
  const Halves columns = script.split(column, 8);
  const Accumulator copy = script.accumulate(BufferHandle::of_stage(0), columns.outer, {columns.inner});
  for (const LoopHandle lane : {columns.inner, copy.setting(0), copy.summing(0)}) script.vectorise(lane);
  const Applied once = apply(plan, script.take(), test::target());
  REQUIRE_MESSAGE(once.plan, once.reason);
  // The next copy in that kernel has the next number.
  Script again(*once.plan->kernels[0]);
  const Halves rows = again.split(row, 4);
  const Accumulator second = again.accumulate(copy.buffer, columns.outer);
  CHECK(second.buffer.name() == "t0.a0.a1");
  CHECK(rows.inner.name() == "t0.i0.i");
}

TEST_CASE("a move with arguments of another row is an internal error, not a wrong plan") {
  const Plan plan = initial_plan(test::lowered(test::in("a", {40, 96}) + 1.0f));
  CHECK_THROWS_AS(apply(plan, Move{MoveKind::Split, {axis_loop(0, 0)}}, test::target()), InternalError);
  CHECK_THROWS_AS(apply(plan, Move{MoveKind::Stream, {BufferHandle::of_stage(0)}}, test::target()),
                  InternalError);
}
