// Searches that begin with what an earlier one left: its measurements and its plan help, and never stand in
// the way of what is found today.
#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <map>

#include "support/search_programs.hpp"

using namespace lathe;
using namespace lathe::search;

namespace {

using Stored = std::map<uint64_t, Measurement>;
using Time = std::function<double(const KernelPlanRef&)>;

struct Run {
  SearchResult result;
  std::vector<KernelPlanRef> measured;
  bool was_measured(uint64_t hash) const {
    return std::any_of(measured.begin(), measured.end(), [&](const auto& k) { return k->hash == hash; });
  }
};

/// A search that ends after so many measurements, on a machine where kernels take what `time` says.
Run run(const std::shared_ptr<const lower::Program>& program, size_t most, const Time& time, Stored stored,
        std::vector<Plan> seeds = {}) {
  Run out;
  std::stop_source stop;
  SearchOptions options;
  options.budget_seconds = 60;
  options.stop = stop.get_token();
  options.seeds = std::move(seeds);
  options.recall = [&](uint64_t hash) {
    const auto it = stored.find(hash);
    return it == stored.end() ? std::nullopt : std::optional(it->second);
  };
  options.measure = [&](const KernelPlanRef& kernel, double) {
    out.measured.push_back(kernel);
    if (out.measured.size() >= most) stop.request_stop();
    return Measurement{true, time(kernel), ""};
  };
  CostModel model(test::target(), test::machine());
  out.result = search::search(initial_plan(program), model, options);
  return out;
}

/// Deterministic, near the model, and not what it says: by up to a half.
Time near_the_model() {
  auto model = std::make_shared<CostModel>(test::target(), test::machine());
  return [model](const KernelPlanRef& kernel) {
    return model->seconds(kernel) * (1 + 0.0005 * static_cast<double>(kernel->hash % 1000));
  };
}

Stored all_of(const Run& earlier, const Time& time) {
  Stored stored;
  for (const auto& kernel : earlier.measured) stored[kernel->hash] = {true, time(kernel), ""};
  return stored;
}

Tensor product() { return test::in("a", {96, 96}).matmul(test::in("b", {96, 96})); }
Tensor two_products() {
  return test::in("a", {48, 64}).matmul(test::in("b", {64, 80})).relu().matmul(test::in("c", {80, 40}));
}

} // namespace

TEST_CASE("what was measured is measured again only where it would be the best") {
  const auto program = test::lowered(product());
  const Time time = near_the_model();
  const Run first = run(program, 40, time, {});
  CHECK(first.measured.size() == 40);
  const Run second = run(program, 40, time, all_of(first, time));
  CHECK(second.measured.size() == 40);
  size_t again = 0;
  double best = 1e30;
  for (const auto& kernel : second.measured) {
    if (first.was_measured(kernel->hash)) {
      ++again;
      CHECK(time(kernel) < best);
    }
    best = std::min(best, time(kernel));
  }
  CHECK(again >= 1);
  CHECK(again < 10);
  CHECK(second.result.measured_seconds <= first.result.measured_seconds);
}

TEST_CASE("times of a better moment don't decide") {
  const auto program = test::lowered(product());
  const Time time = near_the_model();
  const Run empty = run(program, 60, time, {});
  // Half of what the search will look at was measured while the machine was three times as fast.
  Stored stored;
  for (size_t i = 0; i < empty.measured.size(); i += 2)
    stored[empty.measured[i]->hash] = {true, time(empty.measured[i]) / 3, ""};
  const Run resumed = run(program, 60, time, stored);
  CHECK(resumed.result.measured_seconds <= empty.result.measured_seconds);
  for (const auto& kernel : resumed.result.plan.kernels) CHECK(resumed.was_measured(kernel->hash));
}

TEST_CASE("what was rejected is not tried again, and leaves room for others") {
  const auto program = test::lowered(product());
  const Time time = near_the_model();
  const Run empty = run(program, 60, time, {});
  Stored stored;
  for (const auto& kernel : empty.measured) stored[kernel->hash] = {false, 0, "crashed: Segmentation fault"};
  const Run resumed = run(program, 20, time, stored);
  CHECK(resumed.measured.size() == 20);
  for (const auto& kernel : resumed.measured) CHECK(!stored.contains(kernel->hash));
}

TEST_CASE("a poor plan to begin with doesn't take the time of what the model proposes") {
  const auto program = test::lowered(two_products());
  const Time time = near_the_model();
  const Plan poor = initial_plan(program); // a kernel per stage, plain loops
  const Run empty = run(program, 100, time, {});
  CHECK(empty.result.plan.kernels.size() < poor.kernels.size());
  const Run resumed = run(program, 100, time, {}, {poor});
  size_t proposed = 0;
  for (const auto& kernel : resumed.measured) proposed += empty.was_measured(kernel->hash);
  CHECK(proposed >= 80);
  CHECK(resumed.result.measured_seconds <= empty.result.measured_seconds);
}
