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

CompileOptions untuned() {
  CompileOptions options = on(default_device(), 1);
  options.use_database = false;
  return options;
}

/// A product whose rows a second product reads: kept apart, since each of its rows is needed for all columns.
Executable products() {
  const Tensor x = Tensor::input("x", {96, 64}), w = Tensor::input("w", {64, 80}),
               v = Tensor::input("v", {80, 48});
  return compile({{"y", x.matmul(w).matmul(v)}}, untuned());
}

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

TEST_CASE("a kernel that reads another says why they are two") {
  const Explanation explanation = explain(products());
  REQUIRE(explanation.kernels.size() == 2);
  CHECK(explanation.kernels[0].borders.empty());
  REQUIRE(explanation.kernels[1].borders.size() == 1);
  const KernelBorder& border = explanation.kernels[1].borders[0];
  CHECK(border.other == explanation.kernels[0].name);
  CHECK(border.moves.starts_with("fuse_at("));
  if (border.legal) {
    CHECK(border.apart > 0);
    CHECK(border.together > border.apart); // else the search would have taken it
  } else {
    CHECK(!border.reason.empty());
  }
  // The text says that the fusion was tried again, and what came of it.
  const std::string text = to_string(explanation.kernels[1]);
  CHECK(text.find("fusions tried again now") != std::string::npos);
  CHECK(text.find(border.legal ? border.moves : border.reason) != std::string::npos);
  CHECK(to_string(explanation.kernels[0]).find("fusions") == std::string::npos);
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
