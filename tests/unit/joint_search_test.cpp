// The joint search over programs with equal kernels, which share their schedules, and over long programs, of
// which the model alone decides what to fuse.
#include <doctest/doctest.h>

#include <algorithm>
#include <limits>
#include <map>

#include <fmt/format.h>

#include "search/beam/families.hpp"
#include "search/beam/joint_search.hpp"
#include "search/beam/measurement.hpp"
#include "search/beam/region_search.hpp"
#include "search/beam/search.hpp"
#include "search/beam/whole_functions.hpp"
#include "search/cost/cost.hpp"
#include "search/cost/features.hpp"
#include "search/suggest/suggest.hpp"
#include "support/search_programs.hpp"

using namespace lathe;
using namespace lathe::search;

namespace {

/// Layers alike: product, bias, relu.
Tensor layers(int count, int64_t size) {
  Tensor x = test::in("x", {size, size});
  for (int k = 0; k < count; ++k)
    x = (x.matmul(test::in(fmt::format("w{}", k), {size, size})) + test::in(fmt::format("b{}", k), {size}))
            .relu();
  return x;
}

/// The kernel that computes these stages.
const KernelPlanRef& kernel_of(const Plan& plan, const std::vector<int>& stages) {
  return *std::find_if(plan.kernels.begin(), plan.kernels.end(),
                       [&](const KernelPlanRef& kernel) { return kernel->stages == stages; });
}

/// By the model, of the forms that the kernel has with parallel loops; infinity if there is none.
double fastest_parallel(const Plan& plan, const KernelPlanRef& kernel, CostModel& model) {
  Plan here = plan;
  here.kernels[0] = kernel;
  Features features;
  read_features(kernel->kernel, model.target(), features);
  double least = std::numeric_limits<double>::infinity();
  for (const Proposal& p : suggest_parallel({here, *kernel, features, model.target(), model.machine(), true}))
    if (const Applied made = apply(here, p.moves, model.target()); made.plan)
      least = std::min(least, model.seconds(made.plan->kernels[0]));
  return least;
}

} // namespace

TEST_CASE("variants of equal kernels name their own loops and buffers") {
  const Plan start = initial_plan(test::lowered(layers(3, 24)));
  CostModel model(test::target(), test::machine());
  SearchOptions options;
  options.rounds = 2;
  options.measure = [](const KernelPlanRef&, double) { return Measurement{}; };
  const Watch watch(0);
  JointSearch joint(start, model, options, watch);
  const std::vector<Partition> partitions = joint.run();
  const auto variants = joint.variants(partitions);
  std::map<uint64_t, std::vector<size_t>> counts; // of the variants of kernels of one structure
  int with_buffers = 0;
  for (const Partition& p : partitions) {
    std::vector<Move> inlined;
    for (const Move& m : joint.moves_since_start(p.plan))
      if (m.kind == MoveKind::Inline) inlined.push_back(m);
    const Plan base = *apply(start, inlined, model.target()).plan;
    for (const KernelPlanRef& kernel : p.plan.kernels) {
      const std::vector<Variant>& own = variants.at(joint.key_of(p.plan, *kernel));
      if (p.plan.kernels.size() == 3) counts[kernel->hash].push_back(own.size());
      for (const Variant& v : own) {
        REQUIRE(v.kernel->stages == kernel->stages);
        const Applied made = apply(base, v.moves, model.target());
        REQUIRE_MESSAGE(made.plan, made.reason);
        REQUIRE(ast::print(v.kernel->kernel) == ast::print(kernel_of(*made.plan, kernel->stages)->kernel));
        with_buffers += std::any_of(v.moves.begin(), v.moves.end(), [](const Move& m) {
          return std::find(m.arguments.begin(), m.arguments.end(), Argument(BufferHandle::of_input("w2"))) !=
                 m.arguments.end();
        });
      }
    }
  }
  CHECK(with_buffers > 0);
  size_t alike = 0;
  for (const auto& [hash, sizes] : counts) {
    alike = std::max(alike, sizes.size());
    CHECK(sizes == std::vector<size_t>(sizes.size(), sizes[0]));
  }
  CHECK(alike >= 2);
}

TEST_CASE("neighbours of equal kernels' schedules are put together to one plan") {
  // The more moves a kernel took, the faster: what wins was not found before measuring, in one round.
  const auto seconds_of = [](const KernelPlan& kernel) {
    return 1e-3 / static_cast<double>(1 + kernel.moves.size());
  };
  std::stop_source stop;
  int calls = 0;
  SearchOptions options;
  options.rounds = 1;
  options.stop = stop.get_token();
  options.measure = [&](const KernelPlanRef& kernel, double) {
    if (++calls == 300) stop.request_stop();
    return Measurement{true, seconds_of(*kernel), ""};
  };
  const SearchResult found = test::searched(layers(3, 24), options);
  double sum = 0;
  for (const KernelPlanRef& kernel : found.plan.kernels) sum += seconds_of(*kernel);
  CHECK(found.measured_seconds == doctest::Approx(sum));
}

TEST_CASE("a long program of which nothing can be measured keeps the model's plan") {
  const auto program = test::lowered(layers(33, 3));
  REQUIRE(is_long(*program));
  REQUIRE(!has_regions(*program));
  CostModel model(test::target(), test::machine());
  const Plan start = initial_plan(program);
  std::stop_source stop;
  SearchOptions options;
  options.beam = 8;
  options.stop = stop.get_token();
  int calls = 0;
  options.measure = [&](const KernelPlanRef&, double) {
    if (++calls == 20) stop.request_stop();
    return Measurement{false, 0, "no compiler"};
  };
  const SearchResult untuned = search::search(start, model, {}),
                     tuned = search::search(start, model, options);
  CHECK(tuned.measured_seconds == 0);
  CHECK(calls == 20);
  CHECK(tuned.plan.moves() == untuned.plan.moves());
}

TEST_CASE("what may be measured on two threads runs on both") {
  const Plan start = initial_plan(test::lowered(test::in("a", {96, 80}).matmul(test::in("b", {80, 112}))));
  const Applied inlined = apply(start, parse_move("inline(t0)"), test::target(2));
  REQUIRE_MESSAGE(inlined.plan, inlined.reason);
  CostModel model(test::target(2), test::machine());
  KernelSearch search(model, 4, 6, true, true);
  size_t serial = 0;
  const std::vector<Schedule>& all = search.schedules(*inlined.plan, 0);
  REQUIRE(all.size() > 100);
  for (const Schedule& s : all) {
    const bool is_serial = ast::print(s.kernel->kernel).find(" parallel ") == std::string::npos;
    serial += is_serial;
    if (is_serial) CHECK(fastest_parallel(*inlined.plan, s.kernel, model) >= s.seconds);
    const Applied made = apply(*inlined.plan, s.moves, model.target());
    REQUIRE_MESSAGE(made.plan, made.reason);
    CHECK(made.plan->kernels[0]->hash == s.kernel->hash);
  }
  CHECK(serial < all.size() / 10);
}

TEST_CASE("a kernel that takes little of the program's time is searched less, but searched") {
  const Plan start = initial_plan(test::lowered(test::in("a", {300, 256}).sum({0})));
  CostModel model(test::target(), test::machine());
  const double unscheduled = model.seconds(start.kernels[0]);
  const auto proposed = [&](double little_below) {
    KernelSearch search(model, 3, 12, false, true);
    search.search_little_below(little_below);
    CHECK(search.best_seconds(start, 0) < 0.5 * unscheduled);
    return search.proposed();
  };
  CHECK(proposed(unscheduled) < proposed(0));
}

TEST_CASE("a part that takes little of the whole program's time is searched less") {
  Tensor x = test::in("x", {64, 64});
  for (int k = 0; k < 4; ++k) x = x.matmul(test::in("w", {64, 64})).softmax(1);
  const auto program = test::lowered(x);
  const auto found = [&](double whole_seconds) {
    CostModel model(test::target(), test::machine());
    SearchOptions options;
    options.whole_seconds = whole_seconds;
    return search::search(initial_plan(program), model, options);
  };
  CostModel model(test::target(), test::machine());
  const double own = least_seconds(initial_plan(program), model);
  CHECK(own > 0);
  const SearchResult as_whole = found(0), large_part = found(own), small_part = found(500 * own);
  CHECK(large_part.plan.moves() == as_whole.plan.moves());
  CHECK(small_part.proposed < as_whole.proposed);
  CHECK(small_part.plan.kernels.size() < program->stages.size());
}

TEST_CASE("schedules that differ in numbers are one family") {
  const auto family = [](std::initializer_list<const char*> moves) {
    std::vector<Move> list;
    for (const char* move : moves) list.push_back(parse_move(move));
    return family_of(list);
  };
  const uint64_t packed = family({"split(t1.i1, 32)", "pack(t1, b, t1.i1.o, packed)", "unroll(t1.i0)"});
  CHECK(packed == family({"split(t1.i1, 48)", "pack(t1, b, t1.i1.o, packed)", "split(t1.i0, 4)"}));
  CHECK(packed != family({"split(t1.i1, 32)", "pack(t1, a, t1.i1.o, packed)"}));
  CHECK(packed != family({"split(t1.i1, 32)"}));
  CHECK(family({"prefetch(t1, b, t1.i0, 4)"}) == family({"prefetch(t1, b, t1.i0, 8)"}));
}

TEST_CASE("predictions are corrected by what was measured of a family, and by all where that is little") {
  Families families;
  CHECK(families.factor(1) == families.factor(2));
  CHECK(families.factor(1) < 1); // unknown: hoped for
  for (int k = 0; k < 20; ++k) families.add(1, 1.5);
  CHECK(families.factor(1) == doctest::Approx(1.5).epsilon(0.1));
  CHECK(families.factor(2) < families.factor(1)); // perhaps better than what is known
  CHECK(families.factor(2) > 1.1);                // perhaps as bad
  for (int k = 0; k < 20; ++k) families.add(2, 0.8);
  CHECK(families.factor(2) == doctest::Approx(0.8).epsilon(0.1));
  CHECK(families.factor(1) == doctest::Approx(1.5).epsilon(0.1));
}

TEST_CASE("a kind of schedule of which the model thinks too little is found early") {
  // The model likes packing an operand best. Whatever does without takes 0.7 times what is predicted.
  const Plan start = initial_plan(test::lowered(test::in("a", {256, 256}).matmul(test::in("b", {256, 256}))));
  CostModel model(test::target(), test::machine());
  SearchOptions options;
  options.beam = 8;
  std::stop_source stop;
  options.stop = stop.get_token();
  const auto packs = [](const KernelPlan& kernel) {
    return std::any_of(kernel.moves.begin(), kernel.moves.end(),
                       [](const Move& m) { return m.kind == MoveKind::Pack; });
  };
  int count = 0, without = 0, first = -1;
  options.measure = [&](const KernelPlanRef& kernel, double) {
    if (!packs(*kernel) && without++ == 0) first = count;
    if (++count == 60) stop.request_stop();
    return Measurement{true, model.seconds(kernel) * (packs(*kernel) ? 1 : 0.7), {}};
  };
  const SearchResult found = search::search(start, model, options);
  CHECK(!packs(*found.plan.kernels.back()));
  CHECK(first < 10);
  CHECK(without > 25);
}

TEST_CASE("a search that begins with functions in one piece inlines what is left by one proposal, too") {
  const Tensor x = test::in("x", {4, 10});
  const auto program = test::lowered(x.log_softmax(1).log_softmax(1));
  const Target target = test::target();
  const Plan begin = with_whole_functions(initial_plan(program), target);
  REQUIRE(begin.kernels.size() < program->stages.size());
  Features features;
  read_features(begin.kernels[0]->kernel, target, features);
  const MachineProfile machine = test::machine();
  size_t legal = 0, largest = 0;
  for (const Proposal& p :
       suggest_inline({begin, *begin.kernels[0], features, target, machine, false, {}, true})) {
    legal += apply(begin, p.moves, target).plan.has_value();
    largest = std::max(largest, p.moves.size());
  }
  CHECK(legal > 0);
  CHECK(largest > 2);
}
