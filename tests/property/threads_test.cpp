// Many threads build, compile and run programs at once; and thread counts don't change a bit of the results.
#include <doctest/doctest.h>

#include <atomic>
#include <cstring>
#include <thread>

#include "support/devices.hpp"

using namespace lathe;

namespace {

std::vector<float> reference(int rows, int inner, int columns, uint64_t seed) {
  const auto x = Tensor::randn({rows, inner}, seed).to_vector<float>();
  const auto w = Tensor::randn({inner, columns}, seed + 1).to_vector<float>();
  std::vector<float> y(static_cast<size_t>(rows * columns));
  for (int i = 0; i < rows; ++i)
    for (int j = 0; j < columns; ++j) {
      float sum = 0;
      for (int k = 0; k < inner; ++k)
        sum += x[static_cast<size_t>(i * inner + k)] * w[static_cast<size_t>(k * columns + j)];
      y[static_cast<size_t>(i * columns + j)] = sum < 0 ? 0 : sum;
    }
  return y;
}

bool close(const std::vector<float>& a, const std::vector<float>& b) {
  if (a.size() != b.size()) return false;
  for (size_t k = 0; k < a.size(); ++k)
    if (std::abs(a[k] - b[k]) > 1e-4f * (1 + std::abs(b[k]))) return false;
  return true;
}

} // namespace

TEST_CASE("eight threads build, compile and run at once") {
  std::vector<std::string> names = present_devices();
  std::atomic<int> wrong{0}, thrown{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t)
    threads.emplace_back([&, t] {
      try {
        for (int round = 0; round < 3; ++round) {
          const int rows = 3 + t % 4, inner = 5 + round, columns = 9 + t;
          CompileOptions options;
          options.device = names[static_cast<size_t>(t + round) % names.size()];
          options.threads = 1 + t % 3;
          options.use_database = t % 2 == 0;
          const Tensor x = Tensor::input("x", {rows, inner}), w = Tensor::input("w", {inner, columns});
          const Executable f = compile({{"y", x.matmul(w).relu()}}, options);
          const auto seed = static_cast<uint64_t>(t * 10 + round);
          const auto out = f(
              {{"x", Tensor::randn({rows, inner}, seed)}, {"w", Tensor::randn({inner, columns}, seed + 1)}});
          if (!close(out.at("y").to_vector<float>(), reference(rows, inner, columns, seed))) ++wrong;
        }
      } catch (const std::exception& e) {
        MESSAGE(e.what());
        ++thrown;
      }
    });
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == 0);
  CHECK(thrown == 0);
}

TEST_CASE("one executable is called from eight threads") {
  for (const std::string& device : present_devices()) {
    CAPTURE(device);
    CompileOptions options;
    options.device = device;
    options.threads = 2;
    options.use_database = false;
    const Var n("n", 1, 32);
    const Tensor x = Tensor::input("x", {n, 6}), w = Tensor::input("w", {6, 7});
    const Executable f = compile({{"y", x.matmul(w).relu()}}, options);
    std::atomic<int> wrong{0};
    std::vector<std::thread> threads;
    for (int t = 0; t < 8; ++t)
      threads.emplace_back([&, t] {
        const int rows = 1 + t * 3;
        const auto seed = static_cast<uint64_t>(t);
        const std::vector<float> expected = reference(rows, 6, 7, seed);
        for (int k = 0; k < 5; ++k) {
          const auto out = f({{"x", Tensor::randn({rows, 6}, seed)}, {"w", Tensor::randn({6, 7}, seed + 1)}});
          if (!close(out.at("y").to_vector<float>(), expected)) ++wrong;
        }
      });
    for (std::thread& thread : threads) thread.join();
    CHECK(wrong == 0);
  }
}

TEST_CASE("the same bits on 1, 2 and 4 threads, run after run") {
  const Tensor x = Tensor::input("x", {61, 129}), w = Tensor::input("w", {129, 47});
  const Tensor y = x.matmul(w).softmax(-1);
  const std::map<std::string, Tensor> inputs{{"x", Tensor::randn({61, 129}, 1).realise()},
                                             {"w", Tensor::randn({129, 47}, 2).realise()}};
  for (const std::string& device : present_devices()) {
    CAPTURE(device);
    CompileOptions options;
    options.device = device;
    options.use_database = false;
    options.threads = 4;
    const Executable on_four = compile({{"y", y}}, options);
    options.moves = on_four.moves();
    const auto bits = [&](const Executable& f) { return f(inputs).at("y").to_vector<float>(); };
    const std::vector<float> first = bits(on_four);
    const auto same = [&](const std::vector<float>& other) {
      return std::memcmp(first.data(), other.data(), first.size() * sizeof(float)) == 0;
    };
    CHECK(same(bits(on_four)));
    if (options.moves.empty()) continue;
    for (const int threads : {1, 2}) {
      options.threads = threads;
      CHECK(same(bits(compile({{"y", y}}, options))));
    }
  }
}
