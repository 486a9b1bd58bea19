// What tuning leaves a program with where measuring comes to nothing.
#include <doctest/doctest.h>

#include <atomic>

#include "compile/pipeline.hpp"
#include "support/devices.hpp"

using namespace lathe;

TEST_CASE("tuning that ends before it has measured a plan keeps the untuned one") {
  const Tensor x = Tensor::input("x", {37, 48}), w = Tensor::input("w", {48, 29});
  const auto program = pipeline::lowered({{"y", (x.softmax(-1).matmul(w) + 1.0).gelu()}});
  CompileOptions options = on(default_device(), 1);
  const search::SearchResult untuned = pipeline::schedule(program, options);

  const std::atomic<bool> stop{true};
  TuneOptions tune;
  tune.stop = &stop;
  options.tune = &tune;
  const search::SearchResult tuned = pipeline::schedule(program, options);
  CHECK(tuned.measured_seconds == 0);
  CHECK(tuned.predicted_seconds == untuned.predicted_seconds);
  CHECK(tuned.plan.moves() == untuned.plan.moves());
}
