// The search: what it finds, that it is deterministic, and how it uses measurements.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <mutex>
#include <set>

#include "search/beam/measurement.hpp"
#include "search/beam/search.hpp"
#include "search/cost/cost.hpp"
#include "search/store/database.hpp"
#include "search/store/log.hpp"
#include "support/search_programs.hpp"

using namespace lathe;
using namespace lathe::search;

namespace {

Tensor matmul(int64_t n) { return test::in("a", {n, n}).matmul(test::in("b", {n, n})); }
Tensor mlp_layer() {
  return (test::in("a", {128, 256}).matmul(test::in("w", {256, 512})) + test::in("b", {512})).gelu(true);
}

std::vector<std::string> texts(const Plan& plan) {
  std::vector<std::string> out;
  for (const Move& m : plan.moves()) out.push_back(to_string(m));
  return out;
}

} // namespace

TEST_CASE("elementwise programs become one vectorised kernel") {
  const Tensor a = test::in("a", {1 << 16}), b = test::in("b", {1 << 16});
  const SearchResult r = test::searched(((a + b) * a).relu() + b);
  CHECK(r.plan.kernels.size() == 1);
  CHECK(ast::print(r.plan.kernels[0]->kernel).find("vector(16)") != std::string::npos);
}

TEST_CASE("softmax over rows and a product with bias and gelu are one kernel each") {
  CHECK(test::searched(test::in("a", {4096, 1024}).softmax(-1)).plan.kernels.size() == 1);
  CHECK(test::searched(mlp_layer()).plan.kernels.size() == 1);
}

TEST_CASE("a product comes near the machine's peak, by the model") {
  const SearchResult r = test::searched(matmul(512));
  const double rate = 2.0 * 512 * 512 * 512 / r.predicted_seconds;
  CHECK(rate > 0.69 * test::machine().flops_per_second[2]);
  CHECK(rate < test::machine().flops_per_second[2] * 1.001);
}

TEST_CASE("a search keeps to the moves that it is allowed") {
  const Tensor y = test::in("a", {4096, 1024}).softmax(-1);
  SearchOptions options;
  options.allowed = [](const Plan&, const std::vector<Move>& moves) {
    return std::none_of(moves.begin(), moves.end(), [](const Move& m) { return m.kind == MoveKind::FuseAt; });
  };
  const SearchResult found = test::searched(y, options);
  CHECK(found.plan.kernels.size() >= 3); // two sums over rows, and what reads both
  for (const Move& move : found.plan.moves()) CHECK(move.kind != MoveKind::FuseAt);
}

TEST_CASE("without measuring the search is deterministic") {
  for (int beam : {4, 8}) {
    SearchOptions options;
    options.beam = beam;
    const Tensor y = test::in("a", {64, 96}).softmax(-1).matmul(test::in("b", {96, 80}));
    CHECK(texts(test::searched(y, options).plan) == texts(test::searched(y, options).plan));
  }
}

TEST_CASE("the moves of the result rebuild it") {
  for (const Tensor& y : {matmul(128), mlp_layer(), test::in("a", {64, 96}).layer_norm({-1})}) {
    const auto program = test::lowered(y);
    CostModel model(test::target(), test::machine());
    const SearchResult r = search::search(initial_plan(program), model, {});
    const Plan again = replay(program, r.plan.moves(), test::target());
    CHECK(model.seconds(again) == doctest::Approx(r.predicted_seconds));
    CHECK(again.kernels.size() == r.plan.kernels.size());
  }
}

TEST_CASE("joint search is never worse than fusion first and loops after") {
  int better = 0;
  for (const Tensor& y :
       {mlp_layer(), test::in("a", {256, 512}).softmax(-1),
        test::in("x", {128, 128}).gelu().matmul(test::in("w", {128, 128})), matmul(128).softmax(-1)}) {
    SearchOptions staged;
    staged.graph_then_loops = true;
    const double joint = test::searched(y).predicted_seconds,
                 apart = test::searched(y, staged).predicted_seconds;
    CHECK(joint <= apart * (1 + 1e-9));
    better += joint < apart * 0.999;
  }
  CHECK(better >= 1);
}

TEST_CASE("threads are used where there is work for them") {
  const SearchResult one = test::searched(matmul(512), {}, 1), two = test::searched(matmul(512), {}, 2);
  CHECK(two.predicted_seconds < 0.6 * one.predicted_seconds);
  CHECK(ast::print(test::searched(test::in("a", {16}) + 1.0f, {}, 2).plan.kernels[0]->kernel)
            .find("parallel") == std::string::npos);
}

TEST_CASE("measurements overrule the model") {
  // A machine on which the model is wrong: what it ranks first is slow, some other variant is fast.
  const Tensor y = matmul(96);
  std::set<uint64_t> seen;
  uint64_t fastest = 0;
  SearchOptions options;
  options.budget_seconds = 20;
  options.measure = [&](const KernelPlanRef& kernel, double limit) {
    CHECK(limit > 0);
    CHECK(seen.insert(kernel->hash).second); // nothing is measured twice
    if (seen.size() % 5 == 4) return Measurement{false, 0, "does not compile"};
    const double seconds = seen.size() == 12 ? 1e-6 : 1e-3;
    if (seen.size() == 12) fastest = kernel->hash;
    return Measurement{true, seconds, ""};
  };
  int64_t reported = 0;
  options.progress = [&](const TuneProgress& p) {
    CHECK(p.measured >= reported);
    CHECK(p.budget_seconds == 20);
    reported = p.measured;
  };
  const SearchResult r = test::searched(y, options);
  REQUIRE(seen.size() >= 12);
  REQUIRE(r.plan.kernels.size() == 1);
  CHECK(r.plan.kernels[0]->hash == fastest);
  CHECK(r.measured_seconds == 1e-6);
  CHECK(r.measured + static_cast<int64_t>(seen.size() / 5) >= static_cast<int64_t>(seen.size()) - 1);
  CHECK(reported > 0);
}

TEST_CASE("kernels of a program are measured apart and put together") {
  std::set<uint64_t> measured;
  SearchOptions options;
  options.budget_seconds = 20;
  options.measure = [&](const KernelPlanRef& kernel, double) {
    measured.insert(kernel->hash);
    // Deterministic per kernel, unrelated to the model.
    return Measurement{true, 1e-5 + 1e-9 * static_cast<double>(kernel->hash % 1000), ""};
  };
  const SearchResult r = test::searched(
      test::in("a", {48, 64}).matmul(test::in("b", {64, 80})).relu().matmul(test::in("c", {80, 40})),
      options);
  double sum = 0;
  for (const auto& k : r.plan.kernels) {
    CHECK(measured.contains(k->hash));
    sum += 1e-5 + 1e-9 * static_cast<double>(k->hash % 1000);
  }
  CHECK(r.measured_seconds == doctest::Approx(sum));
}

TEST_CASE("a search in which nothing can be measured still gives a plan") {
  SearchOptions options;
  options.budget_seconds = 1;
  options.measure = [](const KernelPlanRef&, double) { return Measurement{false, 0, "no compiler"}; };
  const SearchResult r = test::searched(matmul(64), options);
  CHECK(r.measured_seconds == 0);
  CHECK(r.rejected > 0);
  CHECK(r.plan.kernels.size() == 1);
  CHECK(r.predicted_seconds > 0);
}

TEST_CASE("the log holds every measured candidate and the plan") {
  test::TemporaryDir dir;
  SearchOptions options;
  options.budget_seconds = 20;
  options.log = dir.file("log.jsonl");
  int calls = 0;
  options.measure = [&](const KernelPlanRef&, double) {
    return ++calls % 3 ? Measurement{true, 1e-3 / calls, ""} : Measurement{false, 0, "wrong result"};
  };
  const auto program = test::lowered(test::in("a", {64, 64}).sum(1, true));
  CostModel model(test::target(), test::machine());
  const SearchResult r = search::search(initial_plan(program), model, options);
  const LogContents log = read_log(options.log);
  CHECK(log.damaged.empty());
  CHECK(log.records.size() == static_cast<size_t>(calls) + 1);
  const auto best = best_plan(log.records, program_hash(*program));
  REQUIRE(best);
  CHECK(best->moves == r.plan.moves());
  CHECK(model.seconds(replay(program, best->moves, test::target())) == doctest::Approx(r.predicted_seconds));
}

TEST_CASE("a search resumes: what was measured is not measured again, and new candidates follow") {
  const auto program = test::lowered(matmul(96));
  std::map<uint64_t, Measurement> stored;
  std::set<uint64_t> measured;
  size_t again = 0;                   // what is best of the stored ones: resumed_search_test.cpp
  const auto run = [&](size_t most) { // 0: all
    measured.clear();
    std::stop_source stop;
    SearchOptions options;
    options.budget_seconds = 20;
    options.stop = stop.get_token();
    options.recall = [&](uint64_t hash) {
      const auto it = stored.find(hash);
      return it == stored.end() ? std::nullopt : std::optional(it->second);
    };
    options.note = [&](const KernelPlan& kernel, const Measurement& m) { stored[kernel.hash] = m; };
    options.measure = [&](const KernelPlanRef& kernel, double) {
      again += stored.contains(kernel->hash);
      CHECK(measured.insert(kernel->hash).second);
      if (measured.size() == most) stop.request_stop();
      return Measurement{true, 1e-5 + 1e-9 * static_cast<double>(kernel->hash % 1000), ""};
    };
    CostModel model(test::target(), test::machine());
    return search::search(initial_plan(program), model, options);
  };
  const SearchResult first = run(10);
  CHECK(measured.size() == 10); // the flag ended it, and the best so far is its result
  CHECK(first.measured_seconds > 0);
  const SearchResult second = run(15);
  CHECK(measured.size() == 15);
  CHECK(second.measured_seconds <= first.measured_seconds);
  CHECK(again > 0);
  CHECK(again < 6);
  CHECK(stored.size() == 25 - again);
  run(0);
  CHECK(stored.size() > 25);
}

TEST_CASE("plans to begin with are measured first, and win if they are best") {
  const auto program = test::lowered(matmul(96));
  SearchOptions options;
  options.budget_seconds = 20;
  CostModel model(test::target(), test::machine());
  // What the model would never propose: the reducing loop alone is split.
  const Plan odd =
      replay(program, {parse_move("split(t0.i0, 7)"), parse_move("split(t0.i1, 5)")}, test::target());
  options.seeds = {odd};
  std::vector<uint64_t> order;
  std::multiset<uint64_t> wanted, found;
  for (const auto& kernel : odd.kernels) wanted.insert(kernel->hash);
  options.measure = [&](const KernelPlanRef& kernel, double) {
    order.push_back(kernel->hash);
    return Measurement{true, wanted.contains(kernel->hash) ? 1e-6 : 1e-3, ""};
  };
  const SearchResult r = search::search(initial_plan(program), model, options);
  REQUIRE(order.size() > wanted.size());
  for (size_t i = 0; i < wanted.size(); ++i) CHECK(wanted.contains(order[i]));
  for (const auto& kernel : r.plan.kernels) found.insert(kernel->hash);
  CHECK(found == wanted);
  CHECK(r.measured_seconds == doctest::Approx(1e-6 * static_cast<double>(wanted.size())));
}

TEST_CASE("rejected candidates are counted by their reason") {
  SearchOptions options;
  options.budget_seconds = 20;
  int calls = 0;
  options.measure = [&](const KernelPlanRef&, double) {
    switch (++calls % 4) {
    case 0: return Measurement{false, 0, "wrong result in t0: element 3 is 1, expected 2"};
    case 1: return Measurement{false, 0, "crashed: Segmentation fault"};
    case 2: return Measurement{false, 0, "no register is left"};
    default: return Measurement{true, 1e-3, ""};
    }
  };
  std::map<std::string, int64_t> reported;
  options.progress = [&](const TuneProgress& p) { reported = p.reasons; };
  const SearchResult r = test::searched(matmul(64), options);
  CHECK(r.rejections.at("wrong result") == calls / 4);
  CHECK(r.rejections.at("crashed") == (calls + 3) / 4);
  CHECK(r.rejections.at("does not compile or run") == (calls + 2) / 4);
  CHECK(reported == r.rejections);
  int64_t sum = 0;
  for (const auto& [reason, count] : r.rejections) sum += count;
  CHECK(sum == r.rejected);
}

TEST_CASE("a program of many equal kernels is searched in about the time of one") {
  // 24 layers alike: every layer gets the schedule that the first one got.
  Tensor x = test::in("x", {64, 64});
  for (int i = 0; i < 24; ++i)
    x = (x.matmul(test::in(fmt::format("w{}", i), {64, 64})) + test::in(fmt::format("b{}", i), {64})).relu();
  const SearchResult r = test::searched(x);
  CHECK(r.plan.kernels.size() == 24);
  std::set<uint64_t> distinct;
  for (const auto& k : r.plan.kernels) distinct.insert(k->hash);
  CHECK(distinct.size() <= 3);
  CHECK(r.proposed < 10000);
}

TEST_CASE("symbolic sizes are scheduled too") {
  const Var n("n", 1, 4096);
  const SearchResult r = test::searched(test::in("x", {n, 64}).matmul(test::in("w", {64, 10})).softmax(-1));
  CHECK(!r.plan.kernels.empty());
  for (const auto& k : r.plan.kernels) CHECK_NOTHROW(ast::verify(k->kernel));
}

TEST_CASE("beam: a small gain is looked for beside a large one") {
  const Tensor large = test::in("a", {2048, 2048}).softmax(-1);
  const Tensor small = test::in("d", {16, 80}).softmax(-1);
  CostModel model(test::target(), test::machine());
  const auto kernels = [&](const std::vector<lower::NamedOutput>& outputs) {
    return lathe::search::search(initial_plan(std::make_shared<const lower::Program>(lower::lower(outputs))),
                                 model, {})
        .plan.kernels.size();
  };
  const auto simple = [](const Tensor& t) { return graph::simplify({graph::node_of(t)})[0]; };
  const lower::NamedOutput y{"y", simple(large)}, z{"z", simple(small)};
  CHECK(kernels({y, z}) == kernels({y}) + kernels({z}));
}
