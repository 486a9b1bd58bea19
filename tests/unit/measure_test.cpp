// Measuring in a process of its own: what a candidate does to that process costs the candidate, not the
// search.
#include <doctest/doctest.h>

#include <chrono>
#include <cmath>
#include <map>
#include <set>

#include "compile/front/target.hpp"
#include "compile/measure/checked_kernels.hpp"
#include "compile/measure/measure.hpp"
#include "compile/realise.hpp"
#include "compile/schedule.hpp"
#include "graph/tensor_impl.hpp"
#include "lathe/executable.hpp"
#include "lathe/lathe.hpp"
#include "lower/program.hpp"
#include "search/beam/measurement.hpp"
#include "search/beam/search.hpp"
#include "search/cost/cost.hpp"
#include "search/machine/profile.hpp"
#include "search/machine/target.hpp"
#include "search/moves/plan.hpp"
#include "support/sabotage.hpp"

using namespace lathe;
using search::KernelPlan;
using search::KernelPlanRef;
using search::Measurement;

namespace {

using ProgramRef = std::shared_ptr<const lower::Program>;

ProgramRef product(int64_t n) {
  const Tensor a = Tensor::input("a", {n, n}), b = Tensor::input("b", {n, n});
  return std::make_shared<const lower::Program>(
      lower::lower({{"y", graph::simplify({graph::node_of(a.matmul(b))})[0]}}));
}

CompileOptions compiled() {
  CompileOptions options;
  options.device = default_device(); // the interpreter would notice what is planted here
  options.threads = 1;
  return options;
}

/// The stored values go through `f`, and every index of the stores through `index`.
template <class Value, class Index>
KernelPlanRef sabotaged(const KernelPlan& kernel, Value&& value, Index&& index) {
  KernelPlan bad = kernel;
  ast::Rewriter change;
  change.on_stmt = [&](ast::Stmt stmt) -> ast::Block {
    if (auto* store = std::get_if<ast::Store>(&stmt.node)) {
      store->value = value(store->value);
      for (Expr& i : store->index) i = index(i);
    }
    ast::Block out;
    out.push_back(std::move(stmt));
    return out;
  };
  bad.kernel.body = ast::rewrite(bad.kernel.body, change);
  bad.hash = ast::structural_hash(bad.kernel);
  return std::make_shared<const KernelPlan>(std::move(bad));
}
KernelPlanRef wrong(const KernelPlan& kernel) {
  return sabotaged(
      kernel,
      [](const ast::ValueRef& v) {
        return ast::make(Op::Add, v->dtype, {v, ast::constant(Scalar::of_float(v->dtype, 0.5))});
      },
      [](Expr i) { return i; });
}
/// Writes far outside of its buffers, which claim to be that large.
KernelPlanRef crashing(const KernelPlan& kernel) {
  KernelPlan bad = kernel;
  std::map<const ast::Buffer*, ast::BufferRef> larger;
  for (ast::Param& p : bad.kernel.params) {
    if (!p.written) continue;
    auto buffer = std::make_shared<ast::Buffer>(*p.buffer);
    for (Expr& size : buffer->shape) size = Expr(int64_t{1} << 20);
    larger[p.buffer.get()] = buffer;
    p.buffer = buffer;
  }
  ast::Rewriter change;
  change.on_buffer = [&](const ast::BufferRef& b) {
    return larger.contains(b.get()) ? larger.at(b.get()) : b;
  };
  change.on_stmt = [&](ast::Stmt stmt) -> ast::Block {
    if (auto* store = std::get_if<ast::Store>(&stmt.node))
      for (Expr& i : store->index) i = i + Expr(int64_t{1} << 19);
    return {std::move(stmt)};
  };
  bad.kernel.body = ast::rewrite(bad.kernel.body, change);
  bad.hash = ast::structural_hash(bad.kernel);
  return std::make_shared<const KernelPlan>(std::move(bad));
}
/// Does its work 2^50 times over.
KernelPlanRef hanging(const KernelPlan& kernel) {
  KernelPlan bad = kernel;
  ast::For forever;
  forever.var = loop_var(1 << 20, "forever", Expr(int64_t{1} << 50));
  forever.extent = Expr(int64_t{1} << 50);
  forever.body = std::move(bad.kernel.body);
  bad.kernel.body.clear();
  bad.kernel.body.push_back({std::move(forever)});
  bad.hash = ast::structural_hash(bad.kernel);
  return std::make_shared<const KernelPlan>(std::move(bad));
}

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

} // namespace

TEST_CASE("a wrong, a crashing and a hanging candidate cost themselves only") {
  const ProgramRef program = product(48);
  const KernelPlanRef good = search::initial_plan(program).kernels[0];
  const pipeline::Measuring measuring = pipeline::make_measure(program, compiled());
  for (int round = 0; round < 2; ++round) {
    const Measurement right = measuring.measure(good, 10);
    CHECK_MESSAGE(right.ok, right.error);
    CHECK(right.seconds > 0);

    const Measurement found = measuring.measure(wrong(*good), 10);
    CHECK(!found.ok);
    CHECK(found.error.find("wrong result in t0") == 0);

    const Measurement crashed = measuring.measure(crashing(*good), 10);
    CHECK(!crashed.ok);
    CHECK(crashed.error.find("crashed: ") == 0);

    const auto start = std::chrono::steady_clock::now();
    const Measurement hung = measuring.measure(hanging(*good), 0.2);
    CHECK(!hung.ok);
    CHECK(hung.error.find("never ends") == 0);
    CHECK(seconds_since(start) < 5);
  }
}

TEST_CASE("a sum that lacks a block, has a term twice or is nothing is rejected, however long it is") {
  for (const int64_t n : {int64_t{1000}, int64_t{1000000}, int64_t{1} << 24}) {
    CAPTURE(n);
    // One running sum each, which sum() and matmul() would cut into chains.
    const Tensor a = Tensor::input("a", {1, n}), b = Tensor::input("b", {1, n});
    for (const Tensor& y : {graph::reduce_op(Op::Add, a, {1}), graph::reduce_op(Op::Add, a * b, {1})}) {
      const ProgramRef program = pipeline::lowered({{"y", y}});
      const CompileOptions options = compiled();
      search::Plan plan = search::initial_plan(program);
      if (plan.kernels.size() > 1) // products and their sum in one kernel
        plan = search::replay(program, {search::parse_move("inline(t0)")},
                              pipeline::target_for(options, *program));
      const KernelPlanRef good = plan.kernels[0];
      const pipeline::Measuring measuring = pipeline::make_measure(program, options);
      const Measurement right = measuring.measure(good, 10);
      CHECK_MESSAGE(right.ok, right.error);
      const auto is_rejected = [&](const KernelPlanRef& bad) {
        const Measurement m = measuring.measure(bad, 10);
        CHECK(!m.ok);
        CHECK_MESSAGE(m.error.starts_with("wrong result"), m.error);
      };
      is_rejected(test::left_out(*good, 1));
      is_rejected(test::left_out(*good, n / 10));
      is_rejected(test::doubled(*good, n / 2));
      is_rejected(test::zeroed(*good));
      CHECK(measuring.measure(good, 10).ok);
    }
  }
}

TEST_CASE("a wrong plan to start from is an internal error with the program, never a plan") {
  const Tensor a = Tensor::input("first", {64, 1000});
  const ProgramRef program = pipeline::lowered({{"y", a.sum(1)}});
  CompileOptions options = compiled();
  options.use_database = false;
  TuneOptions tune;
  tune.budget_seconds = 0.5;
  options.tune = tune;
  const search::Plan good = pipeline::schedule(program, options).plan;
  for (const bool zeros : {false, true}) {
    search::Plan bad = search::initial_plan(program);
    bad.kernels[0] = zeros ? test::zeroed(*bad.kernels[0]) : test::left_out(*bad.kernels[0], 1);
    std::string message;
    try {
      pipeline::schedule(program, options, &bad);
    } catch (const InternalError& e) {
      message = e.what();
    }
    for (const char* part :
         {"the untuned plan", "wrong result in t0", "please report it", "first", "for t0.i0", "Its moves"})
      CHECK_MESSAGE(message.find(part) != std::string::npos, message);
    // The kernel is there to be replayed.
    const std::string kernel = message.substr(message.find("kernel ", message.find("The kernel:")));
    const ast::Kernel parsed = ast::parse(kernel.substr(0, kernel.rfind('}') + 1));
    CHECK(ast::structural_hash(parsed) == ast::structural_hash(bad.kernels[0]->kernel));
  }
}

TEST_CASE("kernels of a plan that the search has found wrong, or has not seen") {
  const ProgramRef program = product(48);
  const search::Plan plan = search::initial_plan(program);
  int calls = 0;
  std::string error;
  const search::Measure measure = [&](const KernelPlanRef&, double) {
    ++calls;
    return Measurement{error.empty(), 1e-6, error};
  };
  const auto makes = [&] { return measure; };
  {
    pipeline::CheckedKernels checked;
    checked.expect_right(plan, "the untuned plan");
    CHECK(checked.noting(measure)(plan.kernels[0], 1).ok);
    checked.check(plan, "the untuned plan", makes); // only what was not measured
    CHECK(calls == static_cast<int>(plan.kernels.size()));
    error = "wrong result in t1: element 0 is 1, expected 2";
    CHECK_THROWS_AS(checked.noting(measure)(plan.kernels[0], 1), InternalError);
    CHECK(!checked.noting(measure)(wrong(*plan.kernels[0]), 1).ok); // any candidate may be wrong
  }
  pipeline::CheckedKernels checked;
  error = "too slow: 2 s, the limit is 1 s";
  checked.check(plan, "the tuned plan", makes);
  error = "wrong result in t1: element 0 is 1, expected 2";
  CHECK_THROWS_AS(checked.check(plan, "the tuned plan", makes), InternalError);
}

TEST_CASE("a quotient by a sum that adds up in another order is not called wrong") {
  const Tensor x = Tensor::input("x", {2048, 512});
  const ProgramRef program = std::make_shared<const lower::Program>(
      lower::lower({{"y", graph::simplify({graph::node_of(1.0f / x.sum(1))})[0]}}));
  const CompileOptions options = compiled();
  std::vector<search::Move> moves;
  for (const char* move : {"fuse_at(t0, t1.i0, register)", "split(t0.r1, 4)", "vectorise(t0.r1.i)"})
    moves.push_back(search::parse_move(move));
  const search::Plan plan = search::replay(program, moves, pipeline::target_for(options, *program));
  REQUIRE(plan.kernels.size() == 1);
  const Measurement m = pipeline::make_measure(program, options).measure(plan.kernels[0], 10);
  CHECK_MESSAGE(m.ok, m.error);
}

TEST_CASE("a candidate that was compiled ahead and crashes is blamed, not the one before it") {
  const ProgramRef program = product(48);
  const KernelPlanRef good = search::initial_plan(program).kernels[0];
  const pipeline::Measuring measuring = pipeline::make_measure(program, compiled());
  const KernelPlanRef bad = crashing(*good), slow = hanging(*good);
  CHECK(measuring.measure(good, 10).ok);
  measuring.prepare(bad);
  measuring.prepare(slow);
  measuring.prepare(good);
  CHECK(!measuring.measure(bad, 10).ok);
  CHECK(measuring.measure(good, 10).ok);
  CHECK(!measuring.measure(slow, 0.1).ok);
  CHECK(measuring.measure(good, 10).ok);
}

TEST_CASE("each copy of what is large, in each layout, holds the same") {
  const auto& levels = search::machine_profile().levels;
  REQUIRE(levels.size() >= 2);
  const auto n = static_cast<int64_t>(std::sqrt(levels[levels.size() - 2].bytes / 4 / sizeof(float))) + 1;
  const Tensor x = Tensor::input("x", {2, n}), w = Tensor::randn({n, n}, 5).realise();
  const ProgramRef program = std::make_shared<const lower::Program>(
      lower::lower({{"y", graph::simplify({graph::node_of(x.matmul(w))})[0]}}));
  const CompileOptions options = compiled();
  const search::Target target = pipeline::target_for(options, *program);
  const pipeline::Measuring measuring = pipeline::make_measure(program, options);
  // Each candidate is checked in its first run, which reads the copies whose turn it is.
  for (const char* lanes : {"4", "8", "16", "32"})
    for (const bool is_packed : {false, true}) {
      std::vector<search::Move> moves;
      for (const std::string& move :
           {std::string("inline(t0)"), "split(t1.i1, " + std::string(lanes) + ")",
            std::string("reorder(t1.i1.o, t1.r2, t1.i1.i)"), std::string("prepack(t1, data1)")})
        if (is_packed || !move.starts_with("prepack")) moves.push_back(search::parse_move(move));
      const search::Plan plan = search::replay(program, moves, target);
      REQUIRE(plan.kernels.size() == 1);
      const Measurement m = measuring.measure(plan.kernels[0], 10);
      CHECK_MESSAGE(m.ok, m.error);
    }
}

TEST_CASE("the search goes on past planted candidates, and finds a schedule") {
  const ProgramRef program = product(48);
  const CompileOptions options = compiled();
  const pipeline::Measuring measuring = pipeline::make_measure(program, options);
  search::CostModel model(pipeline::target_for(options, *program), search::default_machine_profile());
  int calls = 0, refused = 0;
  std::set<uint64_t> planted;
  search::SearchOptions how;
  how.budget_seconds = 6;
  how.prepare = measuring.prepare;
  how.measure = [&](const KernelPlanRef& kernel, double limit) {
    const int plant = ++calls;
    if (plant != 3 && plant != 6 && plant != 9) return measuring.measure(kernel, limit);
    planted.insert(kernel->hash);
    const Measurement m = measuring.measure(plant == 3   ? wrong(*kernel)
                                            : plant == 6 ? crashing(*kernel)
                                                         : hanging(*kernel),
                                            limit);
    refused += !m.ok;
    return m;
  };
  const search::SearchResult r = search::search(search::initial_plan(program), model, how);
  CHECK(refused == 3);
  CHECK(r.measured > 20);
  CHECK(r.measured_seconds > 0);
  for (const KernelPlanRef& kernel : r.plan.kernels) CHECK(!planted.contains(kernel->hash));
}

TEST_CASE("a search that can measure nothing says why") {
  const ProgramRef program = product(48);
  search::CostModel model(pipeline::target_for(compiled(), *program), search::default_machine_profile());
  search::SearchOptions how;
  how.budget_seconds = 1;
  how.measure = [](const KernelPlanRef&, double) {
    return Measurement{false, 0, "tune: no process to measure in", false};
  };
  CHECK_THROWS_WITH_AS(search::search(search::initial_plan(program), model, how),
                       "tune: no process to measure in", Error);
}
