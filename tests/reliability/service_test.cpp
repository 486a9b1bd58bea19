// A service that compiles ever new programs keeps nothing of those that it has dropped. LATHE_RUNS=n for
// programs of each kind: 36 without it.
#include <doctest/doctest.h>

#include <malloc.h>

#include <atomic>
#include <cstdlib>
#include <functional>
#include <random>
#include <thread>

#include "lathe/lathe.hpp"
#include "support/files.hpp"
#include "support/runs.hpp"

using namespace lathe;

namespace {

int programs_to_make() { return test::runs(36); }

/// Of the heap, with nothing kept for later.
double kilobytes_in_use() {
  clear_caches();
  return static_cast<double>(mallinfo2().uordblks) / 1024;
}

/// What each program adds to the heap once some have been made.
double growth(const std::function<void(int)>& make_program) {
  const int first = programs_to_make() / 2;
  for (int k = 0; k < first; ++k) make_program(k);
  const double before = kilobytes_in_use();
  for (int k = first; k < programs_to_make(); ++k) make_program(k);
  return (kilobytes_in_use() - before) / (programs_to_make() - first);
}

// Shapes that are new to the process are the user's, and so are constants: some kilobytes each at first, a
// few hundred bytes after many programs. What a compilation makes is at least 30 kB.
constexpr double kMostKilobytes = 15;

} // namespace

TEST_CASE("matrix products of ever new sizes") {
  const test::CacheDir cache;
  for (const char* device : {"cpu", "interp"}) {
    CAPTURE(device);
    const double kilobytes = growth([&](int k) {
      const int64_t m = 3 + k % 61, n = 3 + k / 61, depth = 3 + (k * 7) % 59;
      const Tensor a = Tensor::input("a", {m, depth}), b = Tensor::input("b", {depth, n});
      const Executable f = compile({{"y", a.matmul(b)}}, {.device = device, .threads = 1});
      const std::vector<float> left(static_cast<size_t>(m * depth), 1.f),
          right(static_cast<size_t>(depth * n), 2.f);
      std::vector<float> out(static_cast<size_t>(m * n), -1.f);
      f.run({{"a", left.data()}, {"b", right.data()}}, {{"y", out.data()}});
      CHECK(out == std::vector<float>(out.size(), 2.f * static_cast<float>(depth)));
    });
    CHECK(kilobytes < kMostKilobytes);
  }
}

TEST_CASE("tensors that are evaluated at once") {
  const test::CacheDir cache;
  std::mt19937 random(7);
  const double kilobytes = growth([&](int) {
    const int64_t rows = 2 + random() % 40, columns = 2 + random() % 40;
    const Tensor a = Tensor::randn({rows, columns}, random());
    const std::vector<float> sums = a.softmax(-1).sum(-1).to_vector<float>();
    for (const float sum : sums) CHECK(sum == doctest::Approx(1).epsilon(1e-5));
  });
  CHECK(kilobytes < kMostKilobytes);
}

TEST_CASE("symbolic sizes, and programs that outlive what they were made from") {
  const test::CacheDir cache;
  std::vector<Shape> kept; // of programs that are gone
  const double kilobytes = growth([&](int k) {
    const Var n("n", 1, 1000 + k);
    const Tensor x = Tensor::input("x", {n, Expr(3)});
    std::vector<Kernel> kernels;
    {
      const Executable f = compile({{"y", (x * 2.0f).sum(-1)}}, {.threads = 1});
      kernels = f.kernels();
      kept.push_back(f.outputs()[0].shape);
    }
    CHECK(kernels[0].source().find("lathe_kernel") != std::string::npos);
    for (const KernelParam& param : kernels[0].params()) kept.push_back(param.shape);
  });
  for (const Shape& shape : kept) {
    CHECK(shape[0].is_var());
    CHECK(shape[0].hi() >= 1000);
    CHECK(to_string(shape[0]) == "n");
  }
  CHECK(kilobytes < kMostKilobytes);
}

TEST_CASE("four users at once") {
  const test::CacheDir cache;
  std::atomic<int> wrong{0};
  const double kilobytes = growth([&](int k) {
    std::vector<std::thread> users;
    for (int user = 0; user < 4; ++user)
      users.emplace_back([&, user] {
        const int64_t n = 5 + 4 * k + user;
        const Tensor x = Tensor::input("x", {n});
        const Executable f = compile({{"y", x.exp2().sum(-1)}}, {.threads = 1});
        const std::vector<float> ones(static_cast<size_t>(n), 1.f);
        float sum = -1;
        f.run({{"x", ones.data()}}, {{"y", &sum}});
        if (sum != 2.f * static_cast<float>(n)) ++wrong;
      });
    for (std::thread& t : users) t.join();
  });
  CHECK(wrong == 0);
  CHECK(kilobytes < 4 * kMostKilobytes);
}
