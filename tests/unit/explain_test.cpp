// Explanations: kernels, what bounds them, their borders and the savings, of programs whose answers are
// known.
#include <algorithm>
#include <set>

#include <doctest/doctest.h>

#include "lathe/explain.hpp"
#include "lathe/lathe.hpp"
#include "support/devices.hpp"

using namespace lathe;

namespace {

using Tried = KernelBorder::Tried;

CompileOptions untuned() {
  CompileOptions options = on(default_device(), 1);
  options.use_database = false;
  return options;
}

/// A product whose rows a second product reads: kept apart, since each of its rows is needed for all columns.
NamedTensors products_of(int64_t terms) {
  const Tensor x = Tensor::input("x", {96, terms}), w = Tensor::input("w", {terms, 80}),
               v = Tensor::input("v", {80, 48});
  return {{"y", x.matmul(w).matmul(v)}};
}
Executable products() { return compile(products_of(64), untuned()); }

} // namespace

TEST_CASE("each kernel is explained, in the order of launches, with terms that are its predicted time") {
  const Executable program = products();
  const Explanation explanation = explain(program);
  REQUIRE(explanation.kernels.size() == program.kernel_count());
  double sum = 0;
  for (size_t k = 0; k < explanation.kernels.size(); ++k) {
    const KernelExplanation& kernel = explanation.kernels[k];
    CHECK(kernel.name == program.kernels()[k].name());
    double terms = 0;
    for (const auto& [name, seconds] : kernel.terms) terms += seconds;
    CHECK(terms == doctest::Approx(kernel.predicted).epsilon(0.01));
    CHECK(kernel.limit > 0);
    CHECK(kernel.measured == 0);
    sum += kernel.predicted;
  }
  CHECK(sum == doctest::Approx(program.predicted_seconds()).epsilon(0.01));
}

TEST_CASE("a recurrence is explained by all steps of its body") {
  // Weights that the caches of a program without them would keep.
  const Tensor x = Tensor::input("x", {40, 512}),
               w = Tensor::from(std::vector<float>(512 * 512, 0.01F)).reshape({512, 512});
  const Scanned run = scan(
      [&](const std::vector<Tensor>& state, const std::vector<Tensor>& rows) -> ScanStep {
        const Tensor next = (state[0].matmul(w) + rows[0].reshape({1, 512})).tanh();
        return {{next}, {next}};
      },
      {Tensor::zeros({1, 512})}, {x});
  const Executable program = compile({{"y", run.stacked[0]}}, untuned());
  const Explanation explanation = explain(program);
  REQUIRE(explanation.kernels.size() == program.kernel_count());
  const auto loop =
      std::find_if(explanation.kernels.begin(), explanation.kernels.end(),
                   [](const auto& kernel) { return kernel.stages.find("40 times") != std::string::npos; });
  REQUIRE(loop != explanation.kernels.end());
  CHECK(loop->stages.find("takes longest") != std::string::npos);
  double terms = 0, sum = 0;
  for (const auto& [name, seconds] : loop->terms) terms += seconds;
  CHECK(terms == doctest::Approx(loop->predicted).epsilon(0.01));
  CHECK(loop->predicted > 40 * 2e-7); // of more than the launches
  for (const KernelExplanation& kernel : explanation.kernels) sum += kernel.predicted;
  CHECK(sum == doctest::Approx(program.predicted_seconds()).epsilon(0.01));
}

TEST_CASE("a kernel of many stages names its results, and counts the stages that it inlines") {
  const Tensor x = Tensor::input("x", {64});
  Tensor y = x;
  for (int k = 0; k < 8; ++k) y = (y + x).relu();
  const Explanation explanation = explain(compile({{"y", y}}, untuned()));
  REQUIRE(explanation.kernels.size() == 1);
  const std::string& stages = explanation.kernels[0].stages;
  INFO(stages);
  CHECK(stages.find(" inlined stages, ") != std::string::npos);
  CHECK(std::ranges::count(stages, '[') == 1);
}

TEST_CASE("a kernel that reads another says what the search tried to make them one") {
  const Explanation explanation = explain(products());
  REQUIRE(explanation.kernels.size() == 2);
  CHECK(explanation.kernels[0].borders.empty());
  REQUIRE(explanation.kernels[1].borders.size() == 1);
  const KernelBorder& border = explanation.kernels[1].borders[0];
  CHECK(border.other == explanation.kernels[0].name);
  CHECK(border.tried == Tried::BySearch);
  CHECK(border.moves.find("fuse_at(" + border.stage) != std::string::npos);
  REQUIRE(border.legal);
  CHECK(border.apart > 0);
  CHECK(border.together > border.apart); // else the search would have taken it
  const std::string text = to_string(explanation.kernels[1]);
  CHECK(text.find("the search tried " + border.moves) != std::string::npos);
  CHECK(to_string(explanation.kernels[0]).find("the search") == std::string::npos);
}

TEST_CASE("of a plan that no search found, fusions are tried again") {
  CompileOptions options = untuned();
  options.moves = products().moves();
  const Explanation explanation = explain(compile(products_of(64), options));
  REQUIRE(explanation.kernels.size() == 2);
  REQUIRE(explanation.kernels[1].borders.size() == 1);
  const KernelBorder& border = explanation.kernels[1].borders[0];
  CHECK(border.tried == Tried::Again);
  CHECK(border.moves.starts_with("fuse_at("));
  if (border.legal)
    CHECK(border.apart > 0);
  else
    CHECK(!border.reason.empty());
  CHECK(to_string(explanation.kernels[1]).find("no search found this plan here") != std::string::npos);
}

TEST_CASE("what a search tried is remembered with its plan") {
  const NamedTensors program = products_of(72); // of no other test
  const std::string first = to_json(explain(compile(program, untuned())).kernels);
  CHECK(to_json(explain(compile(program, untuned())).kernels) == first);
  clear_caches(); // from the disk
  CHECK(to_json(explain(compile(program, untuned())).kernels) == first);
  CHECK(first.find(R"("tried":"search")") != std::string::npos);
}

TEST_CASE("regions of a large program say what was tried in the names of the whole program") {
  Tensor x = Tensor::input("x", {24, 24});
  for (int k = 0; k < 40; ++k) x = x.matmul(Tensor::input("w" + std::to_string(k), {24, 24})).softmax(-1) + x;
  const Executable program = compile({{"y", x}}, untuned());
  const Explanation explanation = explain(program);
  size_t by_search = 0;
  for (const KernelExplanation& kernel : explanation.kernels)
    for (const KernelBorder& border : kernel.borders) {
      CHECK(border.tried != Tried::Again);
      if (border.tried != Tried::BySearch) continue;
      ++by_search;
      // Layers are alike, and each names its own stages: what is read is among those that the moves name.
      const std::string text = border.legal ? border.moves : border.reason;
      CHECK_MESSAGE((text.find(border.stage + ",") != std::string::npos ||
                     text.find(border.stage + ")") != std::string::npos ||
                     text.find(border.stage + " ") != std::string::npos),
                    border.stage, ": ", text);
    }
  CHECK(by_search > 10);
}

TEST_CASE("a tuned plan says what its search tried") {
  CompileOptions options = untuned();
  options.tune = TuneOptions{.budget_seconds = 1, .beam = 2};
  const Explanation explanation = explain(compile(products_of(64), options));
  for (const KernelExplanation& kernel : explanation.kernels)
    for (const KernelBorder& border : kernel.borders) CHECK(border.tried == Tried::BySearch);
}

TEST_CASE("kernels that share a loop are explained as one") {
  const Tensor x = Tensor::input("x", {int64_t{1} << 26});
  const Executable program = compile({{"most", x.max()}, {"sum", x.sum()}}, untuned());
  const auto shares_loop = [](const std::string& move) { return move.starts_with("fuse_loops("); };
  const std::vector<std::string> moves = program.kernels()[0].moves();
  REQUIRE(std::any_of(moves.begin(), moves.end(), shares_loop));
  std::set<std::string> names;
  size_t borders = 0;
  for (const KernelExplanation& kernel : explain(program).kernels) {
    names.insert(kernel.name);
    for (const KernelBorder& border : kernel.borders) {
      CHECK(names.contains(border.other));
      ++borders;
    }
  }
  CHECK(borders > 0);
}

TEST_CASE("the bound of a sum is memory, of a product arithmetic") {
  const Tensor x = Tensor::input("x", {1 << 22}), a = Tensor::input("a", {256, 256});
  CHECK(explain(compile({{"y", x.sum()}}, untuned())).kernels.at(0).bound == "bandwidth");
  CHECK(explain(compile({{"y", a.matmul(a)}}, untuned())).kernels.at(0).bound == "compute");
}

TEST_CASE("savings go by measured times, the largest first, five at most") {
  const Executable program = products();
  const std::string first = program.kernels()[0].name(), second = program.kernels()[1].name();
  for (const std::string& slow : {first, second}) {
    std::map<std::string, double> measured{{first, 1e-3}, {second, 1e-3}, {"of another program", 2}};
    measured[slow] = 1;
    const Explanation explanation = explain(program, measured);
    REQUIRE(!explanation.savings.empty());
    CHECK(explanation.savings.size() <= 5);
    CHECK(explanation.savings[0].what.starts_with(slow + ":"));
    CHECK(explanation.savings[0].seconds > 0.9);
    CHECK(std::ranges::is_sorted(explanation.savings, std::greater<>(), &Saving::seconds));
    CHECK(explanation.kernels[0].measured == measured[first]);
  }
}
