// Loops that end by their data, against plain loops: every device, sizes known at run time, loops inside of
// others, saved programs, derivatives. A limit of 2^40 steps makes a loop that doesn't end early run for
// hours.
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <random>
#include <thread>

#include "lathe/export.hpp"
#include "lathe/gradient.hpp"
#include "lathe/profile.hpp"
#include "lathe/program_file.hpp"
#include "support/devices.hpp"
#include "support/errors.hpp"

using namespace lathe;

namespace {

using Tensors = std::vector<Tensor>;
constexpr int64_t kEndless = int64_t{1} << 40;

Tensor one(int64_t value) { return Tensor::full({}, value); }

/// The state is the number and how many steps it has made.
NamedTensors collatz() {
  const auto is_above_one = [](const Tensors& s) { return s[0] > int64_t{1}; };
  const auto next = [](const Tensors& s) -> Tensors {
    const Tensor is_even = (s[0] & int64_t{1}) == int64_t{0};
    return {where(is_even, s[0] >> int64_t{1}, s[0] * int64_t{3} + int64_t{1}), s[1] + int64_t{1}};
  };
  const Tensors made = while_loop(is_above_one, next, {Tensor::input("n", {}, DType::I64), one(0)}, kEndless);
  return {{"last", made[0]}, {"steps", made[1]}};
}

int64_t collatz_steps(int64_t n) {
  int64_t steps = 0;
  for (; n > 1; ++steps) n = n % 2 == 0 ? n / 2 : 3 * n + 1;
  return steps;
}

void check_collatz(const Executable& executable) {
  for (const int64_t n : {27, 1, 0, 2, 97, 871, 6171}) {
    CAPTURE(n);
    const NamedTensors got = executable({{"n", one(n)}});
    CHECK(got.at("steps").item<int64_t>() == collatz_steps(n));
    CHECK(got.at("last").item<int64_t>() == std::min<int64_t>(n, 1));
  }
}

/// s' = s^2 a while s < limit, for s and a of `width` elements.
Tensor grown(const Tensor& s, const Tensor& a, double limit, Expr most) {
  const auto is_below = [&](const Tensors& x) { return x[0].max() < limit; };
  const auto next = [&](const Tensors& x) -> Tensors { return {x[0] * x[0] * a}; };
  return while_loop(is_below, next, {s}, most)[0];
}

/// Wraps, as tensors do.
int64_t sum_of(const std::vector<int64_t>& values) {
  uint64_t sum = 0;
  for (const int64_t v : values) sum += static_cast<uint64_t>(v);
  return static_cast<int64_t>(sum);
}

} // namespace

TEST_CASE("a loop makes the steps that it needs and no more, on every device") {
  for (const std::string& device : present_devices()) {
    INFO(device);
    check_collatz(compile(collatz(), on(device)));
  }
}

TEST_CASE("random conditions, limits and starts against a plain loop") {
  const Tensor x = Tensor::input("x", {3}, DType::I64), m = Tensor::input("m", {}, DType::I64);
  const Tensor most = Tensor::input("k", {}, DType::I64);
  const auto goes_on = [&](const Tensors& s) { return (s[0].sum() & m) != most; };
  const auto next = [&](const Tensors& s) -> Tensors {
    return {s[0] * int64_t{6364136223846793005} + s[1], s[1] + int64_t{1}};
  };
  const Expr limit = Var("limit", 0, 100);
  const Tensors made = while_loop(goes_on, next, {x, one(0)}, limit);
  const NamedTensors program{
      {"x", made[0]}, {"steps", made[1]}, {"of", Tensor::input("sized", {limit}).sum()}};
  std::mt19937_64 random(7);
  for (const std::string& device : present_devices()) {
    INFO(device);
    const Executable executable = compile(program, on(device));
    for (int run = 0; run < 40; ++run) {
      std::vector<int64_t> state(3);
      for (int64_t& s : state) s = static_cast<int64_t>(random());
      const int64_t mask = (1 << random() % 8) - 1, end = static_cast<int64_t>(random()) & mask;
      const int64_t most_steps = static_cast<int64_t>(random() % 101);
      const NamedTensors got = executable({{"x", Tensor::from(state, {3})},
                                           {"m", one(mask)},
                                           {"k", one(end)},
                                           {"sized", Tensor::zeros({most_steps})}});
      int64_t steps = 0;
      for (; steps < most_steps && (sum_of(state) & mask) != end; ++steps)
        for (int64_t& s : state)
          s = static_cast<int64_t>(static_cast<uint64_t>(s) * 6364136223846793005u +
                                   static_cast<uint64_t>(steps));
      CHECK(got.at("steps").item<int64_t>() == steps);
      CHECK(got.at("x").to_vector<int64_t>() == state);
    }
  }
}

TEST_CASE("Newton's method, and power iteration until it converges") {
  const Tensor a = Tensor::input("a", {}, DType::F64);
  const auto is_far = [&](const Tensors& s) { return (s[0] * s[0] - a).abs() > 1e-9 * a; };
  const auto nearer = [&](const Tensors& s) -> Tensors { return {(s[0] + a / s[0]) * 0.5}; };
  const Tensor root = while_loop(is_far, nearer, {a}, kEndless)[0];

  const Expr n = Var("n", 1, 40);
  const Tensor matrix = Tensor::input("matrix", {n, n}, DType::F64);
  const auto has_moved = [](const Tensors& s) { return (s[1] - s[2]).abs() > 1e-10 * s[1].abs(); };
  const auto power = [&](const Tensors& s) -> Tensors {
    const Tensor next = matrix.matmul(s[0]), length = next.square().sum().sqrt();
    return {next / length, length, s[1]};
  };
  const Tensors start{Tensor::ones({n}, DType::F64), Tensor::ones({}, DType::F64),
                      Tensor::zeros({}, DType::F64)};
  const Tensor largest = while_loop(has_moved, power, start, kEndless)[1];
  for (const std::string& device : present_devices()) {
    INFO(device);
    const Executable roots = compile({{"root", root}}, on(device));
    for (const double value : {2.0, 1.0, 1e-6, 12345.0})
      CHECK(roots({{"a", Tensor::full({}, value)}}).at("root").item<double>() ==
            doctest::Approx(std::sqrt(value)).epsilon(1e-8));
    const Executable values = compile({{"largest", largest}}, on(device));
    for (const int64_t size : {1, 2, 17, 40}) {
      // v v^T + 1 has the largest eigenvalue |v|^2 + 1
      const Tensor v = Tensor::rand({size, 1}, 3, DType::F64).realise() + 0.5;
      const Tensor m = v.matmul(v.transpose()) + Tensor::eye(size, -1, DType::F64);
      CHECK(values({{"matrix", m.realise()}}).at("largest").item<double>() ==
            doctest::Approx(v.square().sum().item<double>() + 1).epsilon(1e-7));
    }
  }
}

TEST_CASE("no steps, all steps, and states that stay") {
  const Tensor x = Tensor::input("x", {2}, DType::I64), stays = Tensor::input("stays", {2}, DType::I64);
  const auto loop = [&](int64_t below, Expr most) {
    const auto is_below = [=](const Tensors& s) { return s[0].max(0, true) < below; }; // of shape [1]
    const auto next = [](const Tensors& s) -> Tensors { return {s[0] + s[1], s[1]}; };
    return while_loop(is_below, next, {x, stays}, most);
  };
  for (const std::string& device : present_devices()) {
    INFO(device);
    const auto run = [&](const Tensors& made) {
      const NamedTensors got = compile({{"x", made[0]}, {"stays", made[1]}}, on(device))(
          {{"x", Tensor::from({3, 4}).cast(DType::I64).realise()},
           {"stays", Tensor::from({1, 2}).cast(DType::I64).realise()}});
      CHECK(got.at("stays").to_vector<int64_t>() == std::vector<int64_t>{1, 2});
      return got.at("x").to_vector<int64_t>();
    };
    CHECK(run(loop(4, kEndless)) == std::vector<int64_t>{3, 4});
    CHECK(run(loop(100, 0)) == std::vector<int64_t>{3, 4});
    CHECK(run(loop(100, 1)) == std::vector<int64_t>{4, 6});
    CHECK(run(loop(100, 5)) == std::vector<int64_t>{8, 14});
    CHECK(run(loop(100, kEndless)) == std::vector<int64_t>{51, 100});
  }
  // Nothing changes, so nothing is to be waited for.
  const auto same = [](const Tensors& s) -> Tensors { return s; };
  CHECK(while_loop([](const Tensors& s) { return s[0] < int64_t{1}; }, same, {one(0)}, kEndless)[0]
            .item<int64_t>() == 0);
}

TEST_CASE("loops in the steps of others") {
  // Each row is made odd by halving; what is left is added up until the sum passes 50.
  const Tensor x = Tensor::input("x", {6}, DType::I64);
  const auto odd = [](const Tensor& value) {
    return while_loop([](const Tensors& s) { return (s[0] & int64_t{1}) == int64_t{0}; },
                      [](const Tensors& s) -> Tensors { return {s[0] >> int64_t{1}}; }, {value}, kEndless)[0];
  };
  const auto scanned = [&](const Tensors& s, const Tensors& row) -> ScanStep {
    const Tensor next = s[0] + odd(row[0]);
    return {{next}, {next}};
  };
  const Tensor sums = scan(scanned, {one(0)}, {x}).stacked[0];
  const auto outer = [&](const Tensors& s) -> Tensors {
    return {s[0] + odd(x.take(s[1] % int64_t{6}, 0)), s[1] + int64_t{1}};
  };
  const Tensors made =
      while_loop([](const Tensors& s) { return s[0] < int64_t{50}; }, outer, {one(0), one(0)}, kEndless);
  const std::vector<int64_t> values{12, 7, 64, 10, 96, 2};
  for (const std::string& device : present_devices()) {
    INFO(device);
    const NamedTensors got = compile({{"sums", sums}, {"last", made[0]}, {"steps", made[1]}},
                                     on(device))({{"x", Tensor::from(values, {6})}});
    CHECK(got.at("sums").to_vector<int64_t>() == std::vector<int64_t>{3, 10, 11, 16, 19, 20});
    CHECK(got.at("last").item<int64_t>() == 50);
    CHECK(got.at("steps").item<int64_t>() == 14);
  }
}

TEST_CASE(
    "mapped: the steps that the slowest element needs, though the states of so many would fit nowhere") {
  const auto next = [](const Tensors& s) -> Tensors {
    const Tensor is_even = (s[0] & int64_t{1}) == int64_t{0};
    return {where(is_even, s[0] >> int64_t{1}, s[0] * int64_t{3} + int64_t{1}), s[1] + int64_t{1}};
  };
  const auto steps = vmap([&](const Tensors& x) -> Tensors {
    const auto is_above_one = [](const Tensors& s) { return s[0] > int64_t{1}; };
    return {while_loop(is_above_one, next, {x[0], one(0)}, int64_t{1} << 59)[1]};
  });
  const Expr n = Var("n", 0, 50);
  const Tensor made = steps({Tensor::input("x", {n}, DType::I64)})[0];
  for (const std::string& device : present_devices()) {
    INFO(device);
    const Executable executable = compile({{"steps", made}}, on(device));
    for (const auto& values : std::vector<std::vector<int64_t>>{{27, 1, 0, 97, 4}, {8}, {}}) {
      std::vector<int64_t> want;
      for (const int64_t value : values) want.push_back(collatz_steps(value));
      const Tensor x = Tensor::from(values, {static_cast<int64_t>(values.size())});
      CHECK(executable({{"x", x}}).at("steps").to_vector<int64_t>() == want);
    }
  }
}

TEST_CASE("eagerly, and of constants alone") {
  const auto doubled = [](const Tensors& s) -> Tensors { return {s[0] + s[0]}; };
  const auto is_below = [](const Tensors& s) { return s[0] < int64_t{1000}; };
  CHECK(while_loop(is_below, doubled, {one(1)}, 100)[0].item<int64_t>() == 1024);
  CHECK(while_loop(is_below, doubled, {one(1)}, kEndless)[0].item<int64_t>() == 1024);
  CHECK(while_loop(is_below, doubled, {one(1)}, 3)[0].item<int64_t>() == 8);
  const auto always = [](const Tensors&) { return Tensor::ones({}, DType::Bool); };
  const auto never = [](const Tensors&) { return Tensor::zeros({}, DType::Bool); };
  CHECK(while_loop(always, doubled, {one(1)}, 7)[0].item<int64_t>() == 128);
  CHECK(while_loop(never, doubled, {one(1)}, 7)[0].item<int64_t>() == 1);
}

TEST_CASE("saved, tuned and on several threads; the listing says how the loop ends") {
  const Executable executable = compile(collatz(), on("cpu"));
  const auto path = std::filesystem::temp_directory_path() / fmt::format("lathe-while-{}", getpid());
  save(executable, path.string());
  const Executable loaded = load_executable(path.string());
  std::filesystem::remove(path);
  CHECK(loaded.print() == executable.print());
  CHECK(executable.print().find(fmt::format("repeat at most {} times, while state2", kEndless)) !=
        std::string::npos);
  check_collatz(loaded);
  CompileOptions options = on("cpu");
  options.tune = TuneOptions{.budget_seconds = 0.5};
  check_collatz(compile(collatz(), options));
  std::vector<std::thread> threads;
  std::vector<int64_t> steps(4);
  for (size_t k = 0; k < steps.size(); ++k)
    threads.emplace_back([&, k] {
      for (int i = 0; i < 50; ++i)
        steps[k] = executable({{"n", one(27 + static_cast<int64_t>(k))}}).at("steps").item<int64_t>();
    });
  for (std::thread& thread : threads) thread.join();
  for (size_t k = 0; k < steps.size(); ++k) CHECK(steps[k] == collatz_steps(27 + static_cast<int64_t>(k)));
}

TEST_CASE("a profile counts the operations of the steps that ran") {
  const Executable executable = compile(collatz(), on("cpu"));
  const auto flops = [&](int64_t n) {
    const Profile profile;
    (void)executable({{"n", one(n)}});
    double sum = 0;
    for (const LaunchTime& launch : profile.launches()) sum += launch.flops;
    return sum;
  };
  const double few = flops(2), many = flops(27); // 1 and 111 steps
  CHECK(many > 50 * few);
  CHECK(many < 112 * few);
}

TEST_CASE("derivatives, where all, some and no steps run") {
  // After k steps s^(2^k) a^(2^k - 1).
  const Tensor s = Tensor::input("s", {2}, DType::F64), a = Tensor::input("a", {2}, DType::F64);
  const std::vector<double> s0{1.1, 0.9}, a0{1.2, 1.05};
  for (const std::string& device : present_devices()) {
    for (const auto& [limit, most, steps] : std::vector<std::tuple<double, int64_t, int>>{
             {1.0, 50, 0}, {1e3, 50, 5}, {1e3, 3, 3}, {1e3, 5, 5}, {1e3, 1 << 20, 5}}) {
      if (most > 50 && device != "cpu") continue;
      CAPTURE(device);
      CAPTURE(limit);
      CAPTURE(most);
      const Tensor y = grown(s, a, limit, most);
      const Tensors first = gradients(y, {s, a});
      NamedTensors program{{"y", y}, {"ds", first[0]}, {"da", first[1]}};
      if (most <= 50) {
        const Tensors second = gradients(first[0], {s, a});
        program["dss"] = second[0];
        program["dsa"] = second[1];
      }
      const NamedTensors got =
          compile(program, on(device))({{"s", Tensor::from(s0)}, {"a", Tensor::from(a0)}});
      const double p = std::pow(2.0, steps);
      for (size_t k = 0; k < 2; ++k) {
        const auto at = [&](const char* name) { return got.at(name).to_vector<double>()[k]; };
        const double want = std::pow(s0[k], p) * std::pow(a0[k], p - 1);
        CHECK(at("y") == doctest::Approx(want));
        CHECK(at("ds") == doctest::Approx(want * p / s0[k]));
        CHECK(at("da") == doctest::Approx(want * (p - 1) / a0[k]));
        if (most > 50) continue;
        CHECK(at("dss") == doctest::Approx(want * p * (p - 1) / (s0[k] * s0[k])));
        CHECK(at("dsa") == doctest::Approx(want * p * (p - 1) / (s0[k] * a0[k])));
      }
    }
  }
}

TEST_CASE(
    "derivatives against differences, with a matrix that all steps read and one program for all limits") {
  const Expr most = Var("most", 0, 20);
  const Tensor x = Tensor::input("x", {4}, DType::F64), w = Tensor::input("w", {4, 4}, DType::F64);
  const auto is_small = [](const Tensors& s) { return s[0].square().sum() < 30.0; };
  const auto next = [&](const Tensors& s) -> Tensors {
    return {s[0].matmul(w).tanh() * 1.5 + s[0], s[1] + 1};
  };
  const Tensors made = while_loop(is_small, next, {x, Tensor::zeros({}, DType::I32)}, most);
  const Tensor y = (made[0] * made[0]).sum();
  const Tensors d = gradients(y, {x, w});
  const Executable executable = compile(
      {{"y", y}, {"dx", d[0]}, {"dw", d[1]}, {"of", Tensor::input("sized", {most}).sum()}}, on("cpu"));
  const std::vector<double> x0 = (Tensor::randn({4}, 1, DType::F64) * 0.3).to_vector<double>(),
                            w0 = (Tensor::randn({16}, 2, DType::F64) * 0.4).to_vector<double>();
  for (const int64_t limit : {0, 1, 4, 20}) {
    CAPTURE(limit);
    const auto run = [&](const std::vector<double>& xs, const std::vector<double>& ws) {
      return executable(
          {{"x", Tensor::from(xs)}, {"w", Tensor::from(ws, {4, 4})}, {"sized", Tensor::zeros({limit})}});
    };
    const NamedTensors got = run(x0, w0);
    const std::vector<double> dx = got.at("dx").to_vector<double>(), dw = got.at("dw").to_vector<double>();
    constexpr double kStep = 1e-6;
    const auto slope = [&](size_t k, bool of_x) {
      const auto at = [&](double by) {
        std::vector<double> xs = x0, ws = w0;
        (of_x ? xs : ws)[k] += by;
        return run(xs, ws).at("y").item<double>();
      };
      return (at(kStep) - at(-kStep)) / (2 * kStep);
    };
    for (size_t k = 0; k < dx.size(); ++k) CHECK(dx[k] == doctest::Approx(slope(k, true)).epsilon(1e-6));
    for (size_t k = 0; k < dw.size(); ++k) CHECK(dw[k] == doctest::Approx(slope(k, false)).epsilon(1e-6));
  }
}

TEST_CASE("bad calls") {
  const Tensor s = Tensor::zeros({3});
  const auto same = [](const Tensors& x) -> Tensors { return {x[0] + 1.0f}; };
  const auto is_low = [](const Tensors& x) { return x[0].sum() < 1.0f; };
  const auto check = [&](ErrorKind kind, const LoopCondition& condition, const LoopBody& body,
                         Expr most = 5) {
    test::check_error(kind, "while_loop", [&] { (void)while_loop(condition, body, {s}, most); });
  };
  check(ErrorKind::DType, [](const Tensors& x) { return x[0].sum(); }, same);
  check(ErrorKind::Shape, [](const Tensors& x) { return x[0] < 1.0f; }, same);
  check(ErrorKind::Value, is_low, same, -1);
  check(ErrorKind::Shape, is_low, [](const Tensors& x) -> Tensors { return {x[0].sum()}; });
  check(ErrorKind::DType, is_low, [](const Tensors& x) -> Tensors { return {x[0].cast(DType::F64)}; });
  check(ErrorKind::Value, is_low, [](const Tensors&) -> Tensors { return {}; });
  const Tensor x = Tensor::input("x", {3}), made = while_loop(is_low, same, {x}, int64_t{1} << 59)[0];
  test::check_error(ErrorKind::Limit, "gradients", [&] { (void)gradients(made.sum(), {x}); });
}
