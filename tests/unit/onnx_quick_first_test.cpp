// Programs that start quickly and get better kernels while they run: values before, during and after, and
// what is saved, printed and given up.
#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include "lathe/program_file.hpp"
#include "support/files.hpp"
#include "support/onnx_builder.hpp"
#include "support/onnx_numbers.hpp"

using namespace lathe;
using namespace lathe::test;
using onnx::ImportOptions;
using onnx::NamedValues;
using onnx::Program;

namespace {

/// Convolutions with a shortcut, over a batch of `batch` images.
std::string network(const Dim& batch, int layers = 4) {
  Graph g;
  g.input("x", DType::F32, {batch, 8, 12, 12});
  std::string at = "x";
  for (int k = 0; k < layers; ++k) {
    const std::string w = "w" + std::to_string(k), a = "a" + std::to_string(k), r = "r" + std::to_string(k),
                      s = "s" + std::to_string(k);
    std::vector<float> weights = numbers(8 * 8 * 9, static_cast<unsigned>(k + 1));
    for (float& weight : weights) weight *= 0.1f;
    g.initialiser<float>(w, {8, 8, 3, 3}, weights);
    g.node("Conv", {at, w}, {a}, {attribute("pads", std::vector<int64_t>{1, 1, 1, 1})});
    g.node("Relu", {a}, {r}).node("Add", {r, at}, {s});
    at = s;
  }
  g.node("Softmax", {at}, {"y"}, {attribute("axis", int64_t{1})});
  return model(g.output("y"));
}

NamedValues images(int64_t count, unsigned seed) {
  return {{"x", Tensor::from(numbers(count * 8 * 12 * 12, seed), {count, 8, 12, 12})}};
}

double difference(const NamedValues& a, const NamedValues& b) {
  const std::vector<float> x = floats(a.at("y")), y = floats(b.at("y"));
  REQUIRE(x.size() == y.size());
  double largest = 0;
  for (size_t k = 0; k < x.size(); ++k) {
    REQUIRE(std::isfinite(x[k]));
    largest = std::max(largest, static_cast<double>(std::abs(x[k] - y[k])));
  }
  return largest;
}

constexpr double kTolerance = 1e-5; // values are at most 1

bool is_quick(const Program& program) {
  const std::vector<Executable> segments = program.segments();
  return std::any_of(segments.begin(), segments.end(), [](const Executable& code) { return code.quick(); });
}

ImportOptions quick_first() {
  ImportOptions options;
  options.quick_first = true;
  return options;
}

} // namespace

TEST_CASE("a program that starts quickly ends with the kernels that a full search finds") {
  const CacheDir cache;
  const Program program = load(network(3)).compile(quick_first());
  const NamedValues x = images(3, 7), first = program(x);
  program.wait_for_best();
  CHECK(!is_quick(program));
  const Program full = load(network(3)).compile();
  CHECK(program.segments().at(0).moves() == full.segments().at(0).moves());
  CHECK(difference(first, full(x)) < kTolerance);
  CHECK(difference(program(x), full(x)) == 0);
  program.wait_for_best(); // there is nothing left
}

TEST_CASE("what starts from a cache that has the best kernels is not made twice") {
  const CacheDir cache;
  (void)load(network(2)).compile();
  clear_caches();
  const Program program = load(network(2)).compile(quick_first());
  CHECK(!is_quick(program));
}

TEST_CASE("calls from several threads are right while the kernels change") {
  const CacheDir cache;
  const Program program = load(network("n")).compile(quick_first());
  const Program full = load(network("n")).compile();
  std::atomic<bool> done{false};
  std::atomic<int> wrong{0}, calls{0};
  std::vector<std::thread> callers;
  for (unsigned t = 0; t < 3; ++t)
    callers.emplace_back([&, t] {
      const int64_t count = 1 + static_cast<int64_t>(t % 2);
      const NamedValues x = images(count, t);
      const std::vector<float> want = floats(full(x).at("y"));
      do {
        const std::vector<float> got = floats(program(x).at("y"));
        bool right = got.size() == want.size();
        for (size_t k = 0; k < want.size() && right; ++k) right = std::abs(got[k] - want[k]) < kTolerance;
        wrong += !right;
        ++calls;
      } while (!done);
    });
  while (calls < 6) std::this_thread::yield();
  program.wait_for_best();
  done = true;
  for (std::thread& caller : callers) caller.join();
  CHECK(wrong == 0);
  program.wait_for_best(); // of a version that a late call was the first to ask for
  CHECK(!is_quick(program));
}

TEST_CASE("a program that goes while its better kernels are made") {
  const CacheDir cache;
  const NamedValues x = images(1, 3);
  for (int k = 0; k < 6; ++k) { // each of other kernels
    const Program program = load(network(1, 3 + k)).compile(quick_first());
    CHECK(floats(program(x).at("y")).size() == 8 * 12 * 12);
    if (k % 2) std::this_thread::sleep_for(std::chrono::milliseconds(10 * k));
  }
}

TEST_CASE("a saved program has the best kernels") {
  const CacheDir cache;
  const TemporaryDir folder;
  const std::string path = folder.file("network.lathe");
  const NamedValues x = images(2, 5);
  std::vector<std::string> moves;
  {
    const Program program = load(network(2)).compile(quick_first());
    onnx::save(program, path);
    CHECK(!is_quick(program));
    moves = program.segments().at(0).moves();
  }
  const Program loaded = onnx::load_program(path);
  CHECK(loaded.segments().at(0).moves() == moves);
  CHECK(difference(loaded(x), load(network(2)).compile()(x)) == 0);
  loaded.wait_for_best();
}

TEST_CASE("moves and a trace ask for one search") {
  const CacheDir cache;
  const TemporaryDir folder;
  ImportOptions traced = quick_first();
  traced.compile.trace = folder.file("trace");
  const Program program = load(network(1, 1)).compile(traced);
  CHECK(!is_quick(program));
  ImportOptions moved = quick_first();
  moved.compile.moves = program.segments().at(0).moves();
  CHECK(!is_quick(load(network(1, 1)).compile(moved)));
}
