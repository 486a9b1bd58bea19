// Compiling with a quick search: right values, the same plan each time, and what a full search found where
// the cache has it. And compiling that is told to stop.
#include <doctest/doctest.h>

#include <cmath>
#include <random>
#include <thread>

#include "lathe/lathe.hpp"
#include "support/devices.hpp"
#include "support/files.hpp"

using namespace lathe;

namespace {

std::vector<float> numbers(size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> draw(-1, 1);
  std::vector<float> out(count);
  for (float& x : out) x = draw(random);
  return out;
}

/// A convolution that has other forms, with an epilogue, a second one, and a softmax over channels.
Tensor small_network(const Tensor& x) {
  const Tensor a = x.conv2d(Tensor::input("w", {8, 8, 3, 3}), {}, {.padding = {1, 1}}).relu();
  const Tensor b = (a + x).conv2d(Tensor::input("v", {16, 8, 1, 1}));
  return b.softmax(1) * 2.f;
}

NamedTensors arguments(int64_t height, int64_t width) {
  const auto drawn = [](const std::vector<int64_t>& sizes, unsigned seed) {
    size_t count = 1;
    for (const int64_t size : sizes) count *= static_cast<size_t>(size);
    return Tensor::from(numbers(count, seed), Shape(sizes.begin(), sizes.end()));
  };
  return {
      {"x", drawn({1, 8, height, width}, 1)}, {"w", drawn({8, 8, 3, 3}, 2)}, {"v", drawn({16, 8, 1, 1}, 3)}};
}

double largest_difference(const Tensor& a, const Tensor& b) {
  const std::vector<float> x = a.to_vector<float>(), y = b.to_vector<float>();
  REQUIRE(x.size() == y.size());
  double largest = 0;
  for (size_t k = 0; k < x.size(); ++k) {
    REQUIRE(std::isfinite(x[k]));
    largest = std::max(largest, std::abs(static_cast<double>(x[k]) - y[k]));
  }
  return largest;
}

} // namespace

TEST_CASE("programs of a quick search are right") {
  const test::CacheDir cache;
  for (const char* device : {"cpu", "c", "interp", "opencl"}) {
    if (!has_device(device)) continue;
    CAPTURE(device);
    for (const auto& [height, width] : {std::pair{1, 1}, {7, 17}, {33, 20}}) {
      CAPTURE(height);
      const NamedTensors y{{"y", small_network(Tensor::input("x", {1, 8, height, width}))}};
      const Executable quick = compile(y, {.device = device, .search = Search::Quick});
      const Executable full = compile(y, {.device = "interp", .winograd = 0});
      CHECK(quick.quick());
      CHECK(!full.quick());
      const NamedTensors given = arguments(height, width);
      CHECK(largest_difference(quick(given).at("y"), full(given).at("y")) < 1e-5); // values are at most 2
    }
  }
}

TEST_CASE("a quick search finds the same plan again, and takes a full search's plan once there is one") {
  const test::CacheDir cache;
  const NamedTensors y{{"y", small_network(Tensor::input("x", {1, 8, 24, 24}))}};
  const CompileOptions quick{.search = Search::Quick}, full;
  const Executable first = compile(y, quick);
  clear_caches(); // the next one reads the plan from the file
  const Executable second = compile(y, quick);
  CHECK(first.quick());
  CHECK(second.quick());
  CHECK(first.moves() == second.moves());
  const Executable best = compile(y, full);
  CHECK(!best.quick());
  CHECK(best.moves() != first.moves());
  CHECK(best.predicted_seconds() <= first.predicted_seconds());
  for (const bool from_file : {false, true}) {
    if (from_file) clear_caches();
    const Executable third = compile(y, quick);
    CHECK(!third.quick());
    CHECK(third.moves() == best.moves());
  }
}

TEST_CASE("moves that are given, and programs of recurrences") {
  const test::CacheDir cache;
  const Tensor x = Tensor::input("x", {64});
  const NamedTensors sum{{"y", x + 1.f}};
  const Executable given = compile(sum, {.search = Search::Quick, .moves = compile(sum).moves()});
  CHECK(!given.quick());
  const auto step = [](const std::vector<Tensor>& state, const std::vector<Tensor>& rows) -> ScanStep {
    return {{(state[0] * 0.5f + rows[0]).tanh()}, {state[0]}};
  };
  const Scanned made = scan(step, {x}, {Tensor::input("steps", {20, 64})});
  const NamedTensors outputs{{"y", made.state[0]}, {"all", made.stacked[0]}};
  const Executable quick = compile(outputs, {.search = Search::Quick});
  CHECK(quick.quick());
  const NamedTensors given_values{{"x", Tensor::from(numbers(64, 4), {64})},
                                  {"steps", Tensor::from(numbers(20 * 64, 5), {20, 64})}};
  const Executable full = compile(outputs, {.device = "interp"});
  for (const char* name : {"y", "all"})
    CHECK(largest_difference(quick(given_values).at(name), full(given_values).at(name)) < 1e-6);
}

TEST_CASE("compile() that is told to stop throws, before and amid its work, and compiles later") {
  const test::CacheDir cache;
  Tensor x = Tensor::input("x", {1, 8, 40, 40});
  for (int layer = 0; layer < 24; ++layer) // each of another size
    x = x.conv2d(Tensor::input("w" + std::to_string(layer), {8, 8, 3, 3}), {},
                 {.padding = {layer % 3 ? 1 : 0, 1}})
            .relu();
  const auto message = "compile: stopped, as CompileOptions::stop asked";
  for (const Search search : {Search::Full, Search::Quick}) {
    std::stop_source source;
    source.request_stop();
    CHECK_THROWS_WITH_AS(compile({{"y", x}}, {.search = search, .stop = source.get_token()}), message, Error);
  }
  int stopped = 0;
  for (const int milliseconds : {1, 20, 100}) {
    std::stop_source source;
    std::thread stopper([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
      source.request_stop();
    });
    try {
      compile({{"y", x}}, {.stop = source.get_token()});
    } catch (const Error& error) {
      CHECK(error.kind() == ErrorKind::Stopped);
      CHECK(std::string(error.what()) == message);
      ++stopped;
    }
    stopper.join();
  }
  CHECK(stopped > 0);
  CHECK(compile({{"y", x}}, {.search = Search::Quick}).kernel_count() > 0);
}
