// Winograd's filtering: what counts as a convolution, the values against sums in f64, its error, and the
// move.
#include <doctest/doctest.h>

#include <algorithm>

#include "compile/front/front.hpp"
#include "compile/realise.hpp"
#include "compile/run/assemble.hpp"
#include "graph/tensor_impl.hpp"
#include "graph/forms/winograd.hpp"
#include "lathe/executable.hpp"
#include "lower/program.hpp"
#include "search/beam/shared_launches.hpp"
#include "search/cost/features.hpp"
#include "search/machine/target.hpp"
#include "search/moves/plan.hpp"
#include "search/suggest/suggest.hpp"
#include "support/devices.hpp"
#include "support/moves.hpp"
#include "support/rounding.hpp"

using namespace lathe;

namespace {

struct Sizes {
  int64_t images, channels, height, width, outputs, padding;
};

struct Problem {
  Sizes s;
  std::vector<float> x, w;
  explicit Problem(const Sizes& sizes)
      : s(sizes), x(uniform(s.images * s.channels * s.height * s.width, 1)),
        w(uniform(s.outputs * s.channels * 9, 2)) {}

  Tensor input() const { return Tensor::input("x", {s.images, s.channels, s.height, s.width}); }
  Tensor weights() const { return Tensor::from(w, {s.outputs, s.channels, 3, 3}); }
  Tensor result() const { return input().conv2d(weights(), {}, {.padding = {s.padding}}); }

  /// The plain sums in f64.
  std::vector<double> expected() const {
    const int64_t oh = s.height + 2 * s.padding - 2, ow = s.width + 2 * s.padding - 2;
    std::vector<double> y;
    for (int64_t n = 0; n < s.images; ++n)
      for (int64_t o = 0; o < s.outputs; ++o)
        for (int64_t i = 0; i < oh; ++i)
          for (int64_t j = 0; j < ow; ++j) {
            double sum = 0;
            for (int64_t c = 0; c < s.channels; ++c)
              for (int64_t a = 0; a < 3; ++a)
                for (int64_t b = 0; b < 3; ++b) {
                  const int64_t h = i + a - s.padding, k = j + b - s.padding;
                  if (h < 0 || h >= s.height || k < 0 || k >= s.width) continue;
                  sum += static_cast<double>(x[((n * s.channels + c) * s.height + h) * s.width + k]) *
                         w[(o * s.channels + c) * 9 + a * 3 + b];
                }
            y.push_back(sum);
          }
    return y;
  }
};

std::shared_ptr<const lower::Program> lowered(const Tensor& y) {
  return pipeline::take_in(NamedTensors{{"y", y}}, {.evaluate = pipeline::values_of, .takes_moved = false})
      .lowered();
}

/// The name of the one convolution of a program; empty if there is none.
std::string convolution_of(const lower::Program& program) {
  std::string name;
  for (const lower::Stage& stage : program.stages)
    if (graph::read_convolution(stage.node)) name += stage.buffer->name;
  return name;
}

std::vector<float> run(const Executable& f, const Problem& p, size_t count) {
  std::vector<float> y(count);
  f.run({{"x", p.x.data()}}, {{"y", y.data()}});
  return y;
}

} // namespace

TEST_CASE("what is a 3 x 3 convolution of stride 1") {
  const Tensor x = Tensor::input("x", {2, 4, 9, 7}), w = Tensor::input("w", {8, 4, 3, 3});
  const auto sizes = [](const Tensor& y) -> std::optional<graph::Convolution> {
    const auto program = lowered(y);
    for (const lower::Stage& stage : program->stages)
      if (auto c = graph::read_convolution(stage.node)) return c;
    return {};
  };
  const auto padded = sizes(x.conv2d(w, {}, {.padding = {1}}).relu());
  REQUIRE(padded);
  CHECK(padded->images == 2);
  CHECK(padded->height == 9);
  CHECK(padded->width == 7);
  CHECK(padded->channels == 4);
  CHECK(padded->outputs == 8);
  const auto bare = sizes(x.conv2d(w));
  REQUIRE(bare);
  CHECK(bare->height == 7);
  CHECK(bare->width == 5);
  CHECK(!sizes(x.conv2d(w, {}, {.stride = {2}})));
  CHECK(!sizes(x.conv2d(w, {}, {.dilation = {2}})));
  CHECK(!sizes(x.conv2d(Tensor::input("w", {8, 4, 5, 5}))));
  CHECK(!sizes(x.conv2d(Tensor::input("w", {8, 4, 1, 1}))));
  CHECK(!sizes(x.conv2d(Tensor::input("w", {8, 2, 3, 3}), {}, {.groups = 2})));
  CHECK(!sizes(x.max_pool2d({3}, {.stride = {1}})));
  CHECK(!sizes(x.matmul(Tensor::input("m", {7, 3}))));
}

TEST_CASE("values on odd sizes, one and several channels, two images, with and without padding") {
  const Sizes all[] = {{1, 3, 7, 7, 5, 1},  {2, 17, 13, 5, 3, 1}, {1, 1, 8, 8, 1, 1}, {2, 3, 13, 5, 17, 0},
                       {1, 17, 6, 9, 1, 0}, {2, 1, 7, 7, 17, 1},  {1, 2, 4, 4, 2, 1}};
  for (const Sizes& s : all) {
    const Problem p(s);
    const std::vector<double> expected = p.expected();
    const auto program = lowered(p.result());
    const std::string name = convolution_of(*program);
    REQUIRE(!name.empty());
    for (const int tile : {2, 4}) {
      CAPTURE(s.channels);
      CAPTURE(s.height);
      CAPTURE(s.outputs);
      CAPTURE(tile);
      const auto applied =
          search::apply(search::initial_plan(program), test::move("winograd({}, {})", name, tile), {});
      REQUIRE_MESSAGE(applied.plan, applied.reason);
      for (const std::string device : {"interp", "c", "cpu"}) {
        if (!has_device(device)) continue;
        const std::vector<float> y = run(pipeline::build(*applied.plan, on(device)), p, expected.size());
        CHECK(error_of(y, expected) < 1e-5);
      }
    }
  }
}

TEST_CASE("the stated errors over 64 channels") {
  const Problem p({1, 64, 16, 16, 8, 1});
  const std::vector<double> expected = p.expected();
  const auto program = lowered(p.result());
  const std::string device = default_device();
  const double direct =
      error_of(run(pipeline::build(search::initial_plan(program), on(device)), p, expected.size()), expected);
  CHECK(direct < 1.5e-6);
  const auto with = [&](int tile) {
    const auto applied = search::apply(search::initial_plan(program),
                                       test::move("winograd({}, {})", convolution_of(*program), tile), {});
    REQUIRE_MESSAGE(applied.plan, applied.reason);
    return error_of(run(pipeline::build(*applied.plan, on(device)), p, expected.size()), expected);
  };
  CHECK(with(2) < 8e-7);
  CHECK(with(4) < 1e-5);
}

TEST_CASE("weights that are tensors are transformed at compile time, others at each call") {
  const Problem p({1, 8, 8, 8, 8, 1});
  const auto transforms = [](const lower::Program& program) {
    int64_t count = 0;
    for (const lower::Stage& stage : program.stages) count += stage.is_transform;
    return count;
  };
  const auto known = lowered(p.result());
  const auto rewritten = search::apply(search::initial_plan(known),
                                       test::move("winograd({}, {})", convolution_of(*known), 4), {});
  REQUIRE(rewritten.plan);
  CHECK(transforms(*rewritten.plan->program) == 2);
  const auto given = lowered(p.input().conv2d(Tensor::input("w", {8, 8, 3, 3}), {}, {.padding = {1}}));
  const auto all = search::apply(search::initial_plan(given),
                                 test::move("winograd({}, {})", convolution_of(*given), 4), {});
  REQUIRE(all.plan);
  CHECK(transforms(*all.plan->program) == 3);
}

/// What the suggester makes of the plan, by each of its proposals.
std::vector<search::Plan> made_by(search::Suggester suggest, const search::Plan& plan,
                                  const search::Target& target) {
  std::vector<search::Plan> made;
  for (const auto& kernel : plan.kernels) {
    search::Features features;
    read_features(kernel->kernel, target, features);
    const search::MachineProfile machine;
    for (const search::Proposal& p : suggest({plan, *kernel, features, target, machine, true, {}, true})) {
      search::Applied applied = search::apply(plan, p.moves, target);
      CHECK_MESSAGE(applied.plan, p.why << ": " << applied.reason);
      if (applied.plan) made.push_back(std::move(*applied.plan));
    }
  }
  return made;
}

TEST_CASE("transforms under the tiles of their reader, and products by blocks of channels") {
  const search::Target target;
  // Whole tiles and cut ones, channels that fill vectors and ones that don't.
  for (const Sizes& s : {Sizes{1, 5, 13, 9, 33, 1}, Sizes{2, 17, 7, 8, 40, 0}, Sizes{1, 3, 10, 10, 32, 0}}) {
    const Problem p(s);
    const Tensor rows = p.result().relu().permute({0, 2, 3, 1}); // channels last
    const Shape shape = rows.shape();
    std::vector<double> expected(p.expected().size());
    {
      const std::vector<double> by_channels = p.expected();
      const int64_t area = shape[1].value() * shape[2].value(), channels = s.outputs;
      for (size_t k = 0; k < expected.size(); ++k) {
        const int64_t at = static_cast<int64_t>(k), channel = at % channels, place = at / channels;
        expected[k] = std::max(
            0.0, by_channels[static_cast<size_t>((place / area * channels + channel) * area + place % area)]);
      }
    }
    const auto program = lowered(rows.contiguous());
    for (const int tile : {2, 4}) {
      CAPTURE(s.height);
      CAPTURE(tile);
      auto rewritten = search::apply(search::initial_plan(program),
                                     test::move("winograd({}, {})", convolution_of(*program), tile), target);
      REQUIRE_MESSAGE(rewritten.plan, rewritten.reason);
      const std::vector<search::Plan> inlined = made_by(search::suggest_inline, *rewritten.plan, target);
      REQUIRE(!inlined.empty());
      // Products under channels of their transform, and that under the tiles of what reads it.
      std::vector<search::Plan> all = made_by(search::suggest_transform, inlined[0], target);
      CHECK(all.size() >= 2);
      const search::Plan tiled = all.back();
      REQUIRE(tiled.kernels.back()->stages.size() == 2);
      for (search::Plan& plan : made_by(search::suggest_transform, tiled, target)) {
        CHECK(plan.kernels.back()->stages.size() == 3);
        all.push_back(std::move(plan));
      }
      CHECK(all.back().kernels.size() == inlined[0].kernels.size() - 2);
      for (const search::Plan& plan : all)
        for (const std::string device : {"interp", "c", "cpu"})
          if (has_device(device))
            CHECK(error_of(run(pipeline::build(plan, on(device)), p, expected.size()), expected) < 1e-5);
    }
  }
}

/// With the named stages' convolutions by tiles of 4 and what is cheap inlined: a kernel for each step.
search::Plan by_steps(const std::shared_ptr<const lower::Program>& program, const search::Target& target) {
  search::Move move{search::MoveKind::Winograd, {}};
  for (const lower::Stage& stage : program->stages)
    if (graph::read_convolution(stage.node)) move.arguments.push_back(search::StageHandle(stage.id));
  move.arguments.push_back(int64_t{4});
  auto rewritten = search::apply(search::initial_plan(program), move, target);
  REQUIRE_MESSAGE(rewritten.plan, rewritten.reason);
  const std::vector<search::Plan> inlined = made_by(search::suggest_inline, *rewritten.plan, target);
  REQUIRE(!inlined.empty());
  return inlined[0];
}

/// Kernels in which some stage is a transform.
std::vector<search::KernelPlanRef> with_transforms(const search::Plan& plan) {
  std::vector<search::KernelPlanRef> found;
  for (const search::KernelPlanRef& kernel : plan.kernels)
    if (std::any_of(kernel->stages.begin(), kernel->stages.end(),
                    [&](int s) { return plan.program->stages[static_cast<size_t>(s)].is_transform; }))
      found.push_back(kernel);
  return found;
}

TEST_CASE("the steps of one convolution share a launch, and no more than those") {
  const search::Target target;
  const Problem p({1, 17, 9, 11, 19, 1});
  const Tensor before = p.input().conv2d(Tensor::from(uniform(17 * 17, 3), {17, 17, 1, 1})).relu();
  const Tensor within = before.conv2d(p.weights(), {}, {.padding = {1}}).relu();
  const Tensor after = within.conv2d(Tensor::from(uniform(7 * 19, 4), {7, 19, 1, 1})).relu();
  const search::Plan steps = by_steps(lowered(after), target);
  const search::Plan shared = search::with_shared_launches(steps, target);
  const auto of_three = with_transforms(shared);
  REQUIRE(of_three.size() == 1);
  CHECK(with_transforms(steps).size() >= 2);
  // The 1 x 1 convolutions around it keep their kernels.
  int64_t sums = 0;
  for (const int s : of_three[0]->stages) sums += shared.program->stages[static_cast<size_t>(s)].is_reduction;
  CHECK(sums == 1);
  CHECK(shared.kernels.size() < steps.kernels.size());
  const size_t count = 7 * 9 * 11;
  for (const std::string device : {"interp", "c", "cpu"})
    if (has_device(device))
      CHECK(run(pipeline::build(shared, on(device)), p, count) ==
            run(pipeline::build(steps, on(device)), p, count));
  // It is a list of moves like any other.
  const search::Plan again = search::replay(lowered(after), shared.moves(), target);
  REQUIRE(again.kernels.size() == shared.kernels.size());
  for (size_t k = 0; k < again.kernels.size(); ++k) CHECK(again.kernels[k]->hash == shared.kernels[k]->hash);
  CHECK(search::with_shared_launches(shared, target).kernels.size() == shared.kernels.size());
  // Where each nest is a launch anyway there is nothing to share.
  search::Target groups;
  groups.groups = true;
  CHECK(search::with_shared_launches(steps, groups).kernels == steps.kernels);
}

TEST_CASE("data that are transformed for two convolutions stay in a kernel of their own") {
  const search::Target target;
  const Problem p({1, 16, 8, 8, 16, 1});
  const Tensor other = Tensor::from(uniform(16 * 16 * 9, 5), {16, 16, 3, 3});
  const Tensor sum = p.result().relu() + p.input().conv2d(other, {}, {.padding = {1}}).relu();
  const search::Plan steps = by_steps(lowered(sum), target);
  const search::Plan shared = search::with_shared_launches(steps, target);
  const auto found = with_transforms(shared);
  REQUIRE(found.size() >= 2);
  CHECK(found[0]->stages.size() == 1);
  CHECK(shared.kernels.size() < steps.kernels.size());
  const size_t count = 16 * 8 * 8;
  for (const std::string device : {"interp", "c", "cpu"})
    if (has_device(device))
      CHECK(run(pipeline::build(shared, on(device)), p, count) ==
            run(pipeline::build(steps, on(device)), p, count));
}

TEST_CASE("the move comes first, replays, and says why it is not legal") {
  const Problem p({1, 8, 9, 9, 8, 1});
  const auto program = lowered(p.result().relu());
  const search::Plan start = search::initial_plan(program);
  const std::string name = convolution_of(*program);
  const search::Target target;
  const std::string odd = search::apply(start, test::move("winograd({}, {})", name, 3), target).reason;
  CHECK_MESSAGE(odd.find("tile") != std::string::npos, odd);
  CHECK(search::apply(start, test::move("winograd({}, {})", "t99", 4), target).reason.find("no stage") !=
        std::string::npos);
  CHECK_THROWS_AS(test::move("winograd({}, {})", name + ".i0", 4), Error);
  CHECK(search::apply(start, test::move("winograd({}, {})", "t98", 4), target).reason.find("no stage") !=
        std::string::npos);
  for (const lower::Stage& stage : program->stages)
    if (stage.buffer->name != name)
      CHECK(search::apply(start, test::move("winograd({}, {})", stage.buffer->name, 4), target)
                .reason.find("no 3 x 3 convolution") != std::string::npos);
  const auto late = search::apply(
      start, {search::parse_move("split(" + name + ".i2, 4)"), test::move("winograd({}, {})", name, 4)},
      target);
  CHECK(late.reason.find("before all other moves") != std::string::npos);

  const auto rewritten = search::apply(start, test::move("winograd({}, {})", name, 2), target);
  REQUIRE(rewritten.plan);
  const search::Plan again = search::replay(program, rewritten.plan->moves(), target);
  REQUIRE(again.kernels.size() == rewritten.plan->kernels.size());
  for (size_t k = 0; k < again.kernels.size(); ++k)
    CHECK(again.kernels[k]->hash == rewritten.plan->kernels[k]->hash);
  CHECK(search::to_string(search::parse_move("winograd(t3, 4)")) == "winograd(t3, 4)");
}

TEST_CASE("a compiled program replays the moves of another, Winograd's included, and the switch forbids it") {
  if (!has_device("cpu")) return;
  const Problem p({1, 64, 28, 28, 64, 1});
  const NamedTensors program{{"y", p.result().relu()}};
  const auto uses_it = [](const Executable& f) {
    const std::vector<std::string> moves = f.moves();
    return !moves.empty() && moves[0].rfind("winograd(", 0) == 0;
  };
  std::vector<double> expected = p.expected();
  for (double& v : expected) v = std::max(v, 0.0);
  CompileOptions options = on("cpu");
  options.winograd = 4;
  const Executable found = compile(program, options);
  CHECK(uses_it(found));
  CHECK(error_of(run(found, p, expected.size()), expected) < 1e-5);
  options.moves = found.moves();
  const Executable replayed = compile(program, options);
  CHECK(replayed.moves() == found.moves());
  CHECK(run(replayed, p, expected.size()) == run(found, p, expected.size()));
  options.moves.clear();
  options.winograd = 0;
  const Executable direct = compile(program, options);
  CHECK(!uses_it(direct));
  CHECK(error_of(run(direct, p, expected.size()), expected) < 1.5e-6);
  options.winograd = 3;
  CHECK_THROWS_AS(compile(program, options), Error);
}
