// Large programs searched region by region: what a region is, and that the moves found in one are those of
// the whole.
#include <doctest/doctest.h>

#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "search/beam/form_search.hpp"
#include "search/beam/region_search.hpp"
#include "search/beam/search.hpp"
#include "search/beam/whole_functions.hpp"
#include "search/cost/cost.hpp"
#include "search/moves/plan_hash.hpp"
#include "support/run_plan.hpp"
#include "support/search_programs.hpp"
#include "view/scoped_pieces.hpp"

using namespace lathe;
using namespace lathe::search;

namespace {

/// Layers of product, bias, tanh and, every third, a sum with what went in three before.
Tensor layers(int count) {
  Tensor x = test::in("x", {4, 24}), kept = x;
  for (int k = 0; k < count; ++k) {
    const std::string n = std::to_string(k % 5);
    x = (x.matmul(test::in("w" + n, {24, 24})) + test::in("b" + n, {24})).tanh();
    if (k % 3 == 2) x = kept = (x + kept).relu();
  }
  return x;
}

/// Whether a way from one stage of the region to another leaves it.
bool is_convex(const lower::Program& program, const std::vector<int>& region) {
  const std::set<int> inside(region.begin(), region.end());
  std::set<int> after; // stages outside that wait for one inside
  for (const lower::Stage& stage : program.stages) {
    bool waits = false, waits_outside = false;
    for (const int source : stage.reads) {
      waits |= inside.count(source) > 0 || after.count(source) > 0;
      waits_outside |= after.count(source) > 0;
    }
    if (inside.count(stage.id)) {
      if (waits_outside) return false;
    } else if (waits) {
      after.insert(stage.id);
    }
  }
  return true;
}

} // namespace

TEST_CASE("regions hold every stage once, are convex and of bounded size") {
  for (const int count : {70, 111}) {
    const auto program = test::lowered(layers(count));
    REQUIRE(has_regions(*program));
    std::set<int> seen;
    for (const std::vector<int>& region : regions_of(*program)) {
      CHECK(region.size() <= 64);
      CHECK(is_convex(*program, region));
      for (const int stage : region) CHECK(seen.insert(stage).second);
    }
    CHECK(seen.size() == program->stages.size());
  }
}

TEST_CASE("a small program has none") { CHECK(!has_regions(*test::lowered(layers(5)))); }

TEST_CASE("the plan made of regions computes what the unscheduled program does, and replays from its moves") {
  const auto program = test::lowered(layers(70));
  CostModel model(test::target(), test::machine());
  const Plan start = initial_plan(program);
  const std::optional<SearchResult> found = search_regions(start, model, {});
  REQUIRE(found);
  CHECK(found->plan.kernels.size() < program->stages.size() / 4); // it was fused
  CHECK(model.seconds(found->plan) < 0.2 * model.seconds(start));
  test::Memory expected = test::random_inputs(*program, 11), got = expected;
  test::run_plan(start, expected, nullptr);
  test::run_plan(found->plan, got, nullptr);
  // Layers pass on what those before them rounded, and may enlarge it.
  CHECK(test::difference(*program, got, expected, 2 * 24 * 70) == "");
  const Plan again = replay(program, found->plan.moves(), test::target());
  REQUIRE(again.kernels.size() == found->plan.kernels.size());
  for (size_t k = 0; k < again.kernels.size(); ++k)
    CHECK(again.kernels[k]->hash == found->plan.kernels[k]->hash);
}

TEST_CASE("a program whose inputs are called as the search would call what flows between regions") {
  Tensor x = test::in("flow0", {4, 24});
  for (int k = 0; k < 70; ++k) x = (x.matmul(test::in("flow1", {24, 24})) + test::in("flow_", {24})).tanh();
  CostModel model(test::target(), test::machine());
  CHECK(search_regions(initial_plan(test::lowered(x)), model, {}));
}

TEST_CASE("a program of which many regions read what is gathered from a copy that lowering makes") {
  const Tensor rows = Tensor::input("rows", {24}, DType::I32);
  const Tensor taken = test::in("x", {24, 24}).tanh().transpose(0, 1).take(rows);
  Tensor x = taken;
  for (int k = 0; k < 100; ++k) x = x.matmul(test::in("w", {24, 24})).tanh() + x * taken;
  const auto program = test::lowered(x);
  REQUIRE(has_regions(*program));
  const auto is_copy = [](const lower::Stage& stage) { return stage.node->op == Op::Contiguous; };
  REQUIRE(std::any_of(program->stages.begin(), program->stages.end(), is_copy));
  CostModel model(test::target(), test::machine());
  const std::optional<SearchResult> found = search_regions(initial_plan(program), model, {});
  REQUIRE(found);
  CHECK(found->plan.kernels.size() < program->stages.size());
}

TEST_CASE("equal regions are searched once") {
  CostModel model(test::target(), test::machine());
  const auto proposed = [&](int count) {
    return search_regions(initial_plan(test::lowered(layers(count))), model, {})->proposed;
  };
  // Four times the layers: were each region searched, four times the proposals.
  CHECK(proposed(240) < 2 * proposed(60));
}

TEST_CASE("what a function is made of is in one kernel, also between regions") {
  std::vector<lower::NamedOutput> outputs;
  for (int k = 0; k < 60; ++k) { // chains of many lengths: the ends of regions fall anywhere in them
    const Tensor x = Tensor::input("x" + std::to_string(k), {4096});
    Tensor y = k % 4 == 0 ? x.cosh() : k % 4 == 1 ? x.log() : k % 4 == 2 ? x.tan() : x.exp();
    for (int more = 0; more < k % 7; ++more) y = (y * 0.25f).exp();
    outputs.push_back({"y" + std::to_string(k), graph::simplify({graph::node_of(y)})[0]});
  }
  const auto program = std::make_shared<const lower::Program>(lower::lower(outputs));
  REQUIRE(has_regions(*program));
  const Target target;
  CHECK(splits_function(initial_plan(program)));
  const Plan together = with_whole_functions(initial_plan(program), target);
  CHECK(!splits_function(together));
  MachineProfile machine;
  CostModel model(target, machine);
  CHECK(!splits_function(search::search(initial_plan(program), model, {}).plan));
}

namespace {

/// Keeps what a search tells as text.
struct Listener final : SearchTrace {
  int searches = 0;
  std::string told;
  void add(std::string_view kind, uint64_t hash) { told += fmt::format("{} {:x}\n", kind, hash); }
  void add(const TriedList& tried) {
    for (ByteReader reader(tried.bytes()); !reader.done();) {
      if (reader.take<bool>()) add("made", reader.take<uint64_t>()), reader.take<double>();
      take_moves(reader, [&](std::string_view bytes) { told += to_string(move_of(bytes)) + "\n"; });
      told += reader.text();
    }
  }
  void begins(const Plan& start, CostModel&, bool) override { ++searches, add("begins", plan_hash(start)); }
  void ends(const Plan& found, double, double) override { add("ends", plan_hash(found)); }
  void starts_at(const Plan& plan, double) override { add("plan", plan_hash(plan)); }
  void plans_from(const Plan& from, const TriedList& tried) override {
    add("plans", plan_hash(from)), add(tried);
  }
  void keeps_plans(const std::vector<const Plan*>& plans) override {
    for (const Plan* plan : plans) add("keeps", plan_hash(*plan));
  }
  void schedules(const Plan& plan, size_t k, double) override { add("root", plan.kernels[k]->hash); }
  void kernels_from(const KernelPlan& from, const TriedList& tried) override {
    add("kernels", from.hash), add(tried);
  }
  void keeps_kernels(const std::vector<KernelPlanRef>& kernels) override {
    for (const KernelPlanRef& kernel : kernels) add("keeps", kernel->hash);
  }
  void measured(const KernelPlan&, double, const Measurement&) override {}
  std::unique_ptr<SearchTrace> piece() override { return std::make_unique<Listener>(); }
  void join(SearchTrace& piece) override {
    const auto& part = static_cast<const Listener&>(piece);
    searches += part.searches;
    told += part.told;
  }
};

/// Layers of convolutions of several sizes, which have other forms, and more stages than one region.
Tensor convolutions() {
  Tensor x = test::in("x", {1, 8, 12, 12});
  for (int k = 0; k < 70; ++k) {
    const int side = k % 4 == 3 ? 1 : 3;
    const Tensor w = test::in("w" + std::to_string(side), {8, 8, side, side});
    x = x.conv2d(w, {}, {.padding = {side / 2}}).tanh() + test::in("b" + std::to_string(k % 3), {8, 1, 1});
  }
  return x;
}

} // namespace

TEST_CASE("kernels, regions and forms searched at once give the plan that they give one after the other, and "
          "tell the same") {
  for (const Tensor& result : {layers(12), layers(90), convolutions()}) {
    const auto program = test::lowered(result);
    const auto moves = [&](SearchTrace* trace) {
      CostModel model(test::target(), test::machine());
      SearchOptions options;
      options.trace = trace;
      return search_forms(initial_plan(program), model, options, {.winograd = 4, .strassen = 1}, {})
          .plan.moves();
    };
    Listener in_turn, at_once;
    std::vector<Move> found;
    on_cores_in_scope(1, [&](size_t) { found = moves(&in_turn); }); // pieces of a piece stay on its thread
    CHECK(in_turn.searches > (has_regions(*program) ? 2 : 0));
    CHECK(moves(nullptr) == found);
    CHECK(moves(&at_once) == found);
    CHECK(at_once.searches == in_turn.searches);
    CHECK(at_once.told.size() > 1000);
    CHECK((at_once.told == in_turn.told)); // no megabytes of text in a failure's message
  }
}
