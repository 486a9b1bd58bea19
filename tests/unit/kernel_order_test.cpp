// The order of kernels: the one that needs the smaller arena.
#include <doctest/doctest.h>

#include "compile/run/kernel_order.hpp"
#include "support/search_programs.hpp"

using namespace lathe;

TEST_CASE(
    "branches run one after the other where that needs less memory, and each kernel after its sources") {
  Tensor sum = Tensor::zeros({1, 1});
  for (int k = 0; k < 4; ++k) {
    const Tensor x = test::in("x" + std::to_string(k), {64, 1});
    const Tensor wide = (x * test::in("y" + std::to_string(k), {1, 64})).contiguous();
    sum = sum + wide.matmul(wide).sum({0, 1}, true);
  }
  const search::Plan start =
      search::initial_plan(test::lowered(sum)); // a kernel for each stage, level by level
  const search::Plan ordered = pipeline::in_memory_order(start);
  REQUIRE(ordered.kernels.size() == start.kernels.size());
  std::vector<bool> computed(start.program->stages.size());
  size_t moved = 0;
  for (size_t k = 0; k < ordered.kernels.size(); ++k) {
    for (const int stage : ordered.kernels[k]->reads) CHECK(computed[static_cast<size_t>(stage)]);
    for (const int stage : ordered.kernels[k]->stages) computed[static_cast<size_t>(stage)] = true;
    moved += ordered.kernels[k] != start.kernels[k];
  }
  CHECK(moved > 0);
  // In that order it stays.
  const search::Plan again = pipeline::in_memory_order(ordered);
  for (size_t k = 0; k < again.kernels.size(); ++k) CHECK(again.kernels[k] == ordered.kernels[k]);
}

TEST_CASE("a chain stays as it is") {
  Tensor x = test::in("x", {32, 32});
  for (int k = 0; k < 5; ++k) x = x.matmul(x).contiguous();
  const search::Plan start = search::initial_plan(test::lowered(x));
  const search::Plan ordered = pipeline::in_memory_order(start);
  for (size_t k = 0; k < start.kernels.size(); ++k) CHECK(ordered.kernels[k] == start.kernels[k]);
}
