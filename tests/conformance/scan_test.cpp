// Recurrences against plain loops: every device, numbers of steps and widths, both directions, sizes known at
// run time, recurrences inside of others, saved programs, and several threads.
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <thread>

#include "lathe/export.hpp"
#include "lathe/gradient.hpp"
#include "lathe/program_file.hpp"
#include "support/devices.hpp"
#include "support/errors.hpp"

using namespace lathe;

namespace {

/// Whole numbers in f32, so that the order of sums does not matter: small, and no two rows alike.
std::vector<float> whole(int64_t count, int from) {
  std::vector<float> values(static_cast<size_t>(count));
  for (size_t k = 0; k < values.size(); ++k)
    values[k] = static_cast<float>((static_cast<int>(k) * 7 + from) % 5 - 2);
  return values;
}

/// Two states, of which one counts in i64; two scanned tensors; a matrix that all steps read; three rows of
/// results, two of them the same.
NamedTensors program(Expr steps, int64_t width, bool backward) {
  const Tensor x = Tensor::input("x", {steps, width}), scale = Tensor::input("scale", {steps});
  const Tensor matrix = Tensor::input("matrix", {width, width}), first = Tensor::input("first", {width});
  const auto step = [&](const std::vector<Tensor>& state, const std::vector<Tensor>& rows) -> ScanStep {
    const Tensor next = state[0].matmul(matrix + matrix).clamp(-9.0f, 9.0f) + rows[0] * rows[1];
    const Tensor count = state[1] + 2;
    return {{next, count}, {next, next * 2.0f + count.cast(DType::F32), next}};
  };
  const Scanned y = scan(step, {first, Tensor::zeros({}, DType::I64)}, {x, scale}, {{}, backward});
  return {{"last", y.state[0]},
          {"count", y.state[1]},
          {"rows", y.stacked[0]},
          {"more", y.stacked[1] + 1.0f},
          {"again", y.stacked[2]}};
}

struct Case {
  int64_t steps, width;
  bool backward;

  NamedTensors inputs() const {
    return {{"x", Tensor::from(whole(steps * width, 1), {steps, width})},
            {"scale", Tensor::from(whole(steps, 2), {steps})},
            {"matrix", Tensor::from(whole(width * width, 3), {width, width})},
            {"first", Tensor::from(whole(width, 4), {width})}};
  }

  void check(const Executable& executable) const {
    CAPTURE(steps);
    CAPTURE(width);
    CAPTURE(backward);
    const std::vector<float> x = whole(steps * width, 1), scale = whole(steps, 2),
                             matrix = whole(width * width, 3);
    std::vector<float> state = whole(width, 4), rows(x.size()), more(x.size());
    for (int64_t k = 0; k < steps; ++k) {
      const auto row = static_cast<size_t>(backward ? steps - 1 - k : k);
      std::vector<float> next(state.size());
      for (size_t j = 0; j < next.size(); ++j) {
        float sum = 0;
        for (size_t i = 0; i < state.size(); ++i) sum += state[i] * 2 * matrix[i * state.size() + j];
        next[j] = std::min(std::max(sum, -9.0f), 9.0f) + x[row * state.size() + j] * scale[row];
        rows[row * state.size() + j] = next[j];
        more[row * state.size() + j] = next[j] * 2 + static_cast<float>(2 * (k + 1)) + 1;
      }
      state = next;
    }
    const NamedTensors got = executable(inputs());
    CHECK(got.at("last").to_vector<float>() == state);
    CHECK(got.at("count").to_vector<int64_t>() == std::vector<int64_t>{2 * steps});
    CHECK(got.at("rows").to_vector<float>() == rows);
    CHECK(got.at("again").to_vector<float>() == rows);
    CHECK(got.at("more").to_vector<float>() == more);
  }
};

} // namespace

TEST_CASE("every device, fixed sizes") {
  for (const std::string& device : present_devices()) {
    INFO(device);
    for (const Case& c :
         {Case{0, 3, false}, Case{1, 5, true}, Case{2, 1, false}, Case{7, 17, true}, Case{13, 8, false}})
      c.check(compile(program(c.steps, c.width, c.backward), on(device)));
  }
}

TEST_CASE("one program for every number of steps") {
  for (const std::string& device : present_devices()) {
    INFO(device);
    for (const bool backward : {false, true}) {
      const Executable executable = compile(program(Var("n", 0, 50), 9, backward), on(device));
      for (const int64_t steps : {5, 0, 1, 50, 2}) Case{steps, 9, backward}.check(executable);
    }
  }
}

TEST_CASE("a tuned program, and one that was saved") {
  const Case c{11, 24, false};
  CompileOptions options = on("cpu");
  options.tune = TuneOptions{.budget_seconds = 1.5};
  const Executable tuned = compile(program(c.steps, c.width, c.backward), options);
  c.check(tuned);
  for (const Executable& executable : {tuned, compile(program(Var("n", 0, 50), 24, false), on("cpu"))}) {
    const auto path = std::filesystem::temp_directory_path() / fmt::format("lathe-scan-{}", getpid());
    save(executable, path.string());
    const Executable loaded = load_executable(path.string());
    std::filesystem::remove(path);
    CHECK(loaded.print() == executable.print());
    c.check(loaded);
  }
}

TEST_CASE("the kernels are as many, and the exported text as long, for any number of steps") {
  const auto text = [](int64_t steps) {
    EmitOptions options;
    options.compile = on("cpu", 1);
    return emit(program(steps, 16, false), options);
  };
  CHECK(compile(program(5, 16, false), on("cpu")).kernel_count() ==
        compile(program(5000, 16, false), on("cpu")).kernel_count());
  CHECK(text(90000).size() < text(10).size() + 1000);
}

TEST_CASE("a recurrence in each step of another") {
  // y[i] = the sum over the rows k of x[i] of (k-th row's sum so far), squared at each outer step
  const Tensor x = Tensor::input("x", {3, 4});
  const auto outer = [](const std::vector<Tensor>& state, const std::vector<Tensor>& rows) -> ScanStep {
    const auto inner = [&](const std::vector<Tensor>& s, const std::vector<Tensor>& r) -> ScanStep {
      const Tensor next = s[0] + r[0] * state[0]; // reads the outer state
      return {{next}, {next}};
    };
    const Scanned made = scan(inner, {Tensor::zeros({})}, {rows[0]});
    return {{state[0] + made.state[0]}, {made.stacked[0]}};
  };
  const Scanned y = scan(outer, {Tensor::ones({})}, {x});
  for (const std::string& device : present_devices()) {
    const std::vector<float> values = whole(12, 3);
    const NamedTensors got = compile({{"last", y.state[0]}, {"rows", y.stacked[0]}},
                                     on(device))({{"x", Tensor::from(values, {3, 4})}});
    float state = 1;
    std::vector<float> rows;
    for (size_t i = 0; i < 3; ++i) {
      float sum = 0;
      for (size_t k = 0; k < 4; ++k) rows.push_back(sum += values[4 * i + k] * state);
      state += sum;
    }
    CHECK(got.at("last").item<float>() == state);
    CHECK(got.at("rows").to_vector<float>() == rows);
  }
}

TEST_CASE("eagerly, with constants alone, and without states or rows") {
  const auto add = [](const std::vector<Tensor>& s, const std::vector<Tensor>& r) -> ScanStep {
    return {{s[0] + r[0]}, {}};
  };
  CHECK(scan(add, {Tensor::zeros({}, DType::I64)}, {Tensor::arange(1000)}).state[0].item<int64_t>() ==
        499500);
  const auto twice = [](const std::vector<Tensor>& s, const std::vector<Tensor>&) -> ScanStep {
    return {{s[0] + s[0]}, {}};
  };
  CHECK(scan(twice, {Tensor::ones({}, DType::I64)}, {}, {Expr(20), false}).state[0].item<int64_t>() ==
        1 << 20);
  const auto square = [](const std::vector<Tensor>&, const std::vector<Tensor>& r) -> ScanStep {
    return {{}, {r[0] * r[0]}};
  };
  CHECK(scan(square, {}, {Tensor::arange(5)}).stacked[0].to_vector<int64_t>() ==
        std::vector<int64_t>{0, 1, 4, 9, 16});
}

TEST_CASE("states that swap, stay and are handed on") {
  const auto step = [](const std::vector<Tensor>& s, const std::vector<Tensor>& r) -> ScanStep {
    return {{s[1], s[0], s[2], r[0]}, {s[3]}};
  };
  const Tensor x = Tensor::input("x", {5});
  const Scanned y = scan(
      step, {Tensor::full({}, 1.0f), Tensor::full({}, 2.0f), Tensor::full({}, 3.0f), Tensor::zeros({})}, {x});
  for (const std::string& device : present_devices()) {
    const NamedTensors got = compile({{"a", y.state[0]},
                                      {"b", y.state[1]},
                                      {"c", y.state[2]},
                                      {"d", y.state[3]},
                                      {"before", y.stacked[0]}},
                                     on(device))({{"x", Tensor::from({5.f, 6.f, 7.f, 8.f, 9.f})}});
    CHECK(got.at("a").item<float>() == 2);
    CHECK(got.at("b").item<float>() == 1);
    CHECK(got.at("c").item<float>() == 3);
    CHECK(got.at("d").item<float>() == 9);
    CHECK(got.at("before").to_vector<float>() == std::vector<float>{0, 5, 6, 7, 8});
  }
}

TEST_CASE(
    "many steps: states that are rows, that swap, that nobody reads at the end; rows in both directions") {
  const auto step = [](const std::vector<Tensor>& s, const std::vector<Tensor>& r) -> ScanStep {
    const Tensor next = (s[0] + r[0]).clamp(-9.0f, 9.0f);
    return {{next, s[2] + 1.0f, s[1] - r[0], r[0]}, {next, s[3] * 2.0f + s[1]}};
  };
  const auto expected = [](const std::vector<float>& x, bool backward) {
    std::vector<float> rows(x.size()), more(x.size());
    float a = 1, b = 2, c = 3, d = 4;
    for (size_t k = 0; k < x.size(); ++k) {
      const size_t row = backward ? x.size() - 1 - k : k;
      more[row] = d * 2 + b;
      rows[row] = a = std::min(std::max(a + x[row], -9.0f), 9.0f);
      std::swap(b, c);
      b += 1, c -= x[row], d = x[row];
    }
    return NamedTensors{{"b", Tensor::scalar(b)},
                        {"c", Tensor::scalar(c)},
                        {"more", Tensor::from(more)},
                        {"rows", Tensor::from(rows)}};
  };
  for (const std::string& device : present_devices())
    for (const bool backward : {false, true}) {
      const Scanned y = scan(
          step,
          {Tensor::full({}, 1.0f), Tensor::full({}, 2.0f), Tensor::full({}, 3.0f), Tensor::full({}, 4.0f)},
          {Tensor::input("x", {Var("n", 1, 100)})}, {{}, backward});
      const Executable executable = compile(
          {{"b", y.state[1]}, {"c", y.state[2]}, {"more", y.stacked[1]}, {"rows", y.stacked[0]}}, on(device));
      for (const int64_t steps : {2, 15, 16, 17, 18, 53, 16}) {
        CAPTURE(device);
        CAPTURE(steps);
        const std::vector<float> x = whole(steps, static_cast<int>(steps));
        const NamedTensors got = executable({{"x", Tensor::from(x)}});
        for (const auto& [name, value] : expected(x, backward))
          CHECK(got.at(name).to_vector<float>() == value.to_vector<float>());
      }
    }
}

TEST_CASE("several threads run one program") {
  const Executable executable = compile(program(Var("n", 0, 50), 9, false), on("cpu"));
  std::vector<std::thread> threads;
  std::vector<std::vector<float>> got(4);
  const auto run = [&](size_t k) {
    for (int i = 0; i < 50; ++i)
      got[k] =
          executable(Case{20 + static_cast<int64_t>(k), 9, false}.inputs()).at("rows").to_vector<float>();
  };
  for (size_t k = 0; k < got.size(); ++k) threads.emplace_back(run, k);
  for (std::thread& thread : threads) thread.join();
  for (size_t k = 0; k < got.size(); ++k)
    CHECK(got[k] ==
          executable(Case{20 + static_cast<int64_t>(k), 9, false}.inputs()).at("rows").to_vector<float>());
}

TEST_CASE("second derivatives") {
  // s' = s * s * x: after 3 steps s^8 x0^4 x1^2 x2
  const Tensor s = Tensor::input("s", {}, DType::F64), x = Tensor::input("x", {3}, DType::F64);
  const auto step = [](const std::vector<Tensor>& state, const std::vector<Tensor>& rows) -> ScanStep {
    return {{state[0] * state[0] * rows[0]}, {}};
  };
  const Tensor y = scan(step, {s}, {x}).state[0];
  const Tensor first = gradients(y, {s})[0];
  const auto second = gradients(first, {s, x});
  const NamedTensors got =
      compile({{"y", y}, {"dy", first}, {"dds", second[0]}, {"ddx", second[1]}},
              on("cpu"))({{"s", Tensor::full({}, 1.1)}, {"x", Tensor::from({0.9, 1.2, 0.7})}});
  const double u = std::pow(0.9, 4) * 1.2 * 1.2 * 0.7, s7 = std::pow(1.1, 7);
  CHECK(got.at("y").item<double>() == doctest::Approx(s7 * 1.1 * u));
  CHECK(got.at("dy").item<double>() == doctest::Approx(8 * s7 * u));
  CHECK(got.at("dds").item<double>() == doctest::Approx(56 * s7 / 1.1 * u));
  const std::vector<double> ddx = got.at("ddx").to_vector<double>();
  CHECK(ddx[0] == doctest::Approx(4 * 8 * s7 * u / 0.9));
  CHECK(ddx[1] == doctest::Approx(2 * 8 * s7 * u / 1.2));
  CHECK(ddx[2] == doctest::Approx(8 * s7 * u / 0.7));
}

TEST_CASE("derivatives by a realised tensor that all steps read") {
  const Tensor w = Tensor::full({}, 0.5).realise(), x = Tensor::input("x", {3}, DType::F64);
  const auto step = [&](const std::vector<Tensor>& state, const std::vector<Tensor>& rows) -> ScanStep {
    return {{state[0] * w + rows[0]}, {}};
  };
  const Tensor y = scan(step, {Tensor::zeros({}, DType::F64)}, {x}).state[0]; // x0 w^2 + x1 w + x2
  const NamedTensors got =
      compile({{"dw", gradients(y, {w})[0]}}, on("cpu"))({{"x", Tensor::from({3.0, 5.0, 7.0})}});
  CHECK(got.at("dw").item<double>() == 3 * 2 * 0.5 + 5);
}

TEST_CASE("bad calls") {
  using test::check_error;
  const Tensor s = Tensor::zeros({3}), x = Tensor::zeros({4, 3});
  const auto keep = [](const std::vector<Tensor>& state, const std::vector<Tensor>&) -> ScanStep {
    return {state, {}};
  };
  check_error(ErrorKind::Value, "scan", [&] { (void)scan(keep, {s}, {}); });
  check_error(ErrorKind::Value, "scan", [&] { (void)scan(keep, {s}, {}, {Expr(-1), false}); });
  check_error(ErrorKind::Shape, "scan", [&] { (void)scan(keep, {s}, {Tensor::zeros({})}); });
  check_error(ErrorKind::Shape, "scan", [&] { (void)scan(keep, {s}, {x, Tensor::zeros({5})}); });
  check_error(ErrorKind::Shape, "scan", [&] {
    (void)scan([](const auto& a, const auto&) -> ScanStep { return {{a[0].sum()}, {}}; }, {s}, {x});
  });
  check_error(ErrorKind::DType, "scan", [&] {
    (void)scan([](const auto& a, const auto&) -> ScanStep { return {{a[0].cast(DType::F64)}, {}}; }, {s},
               {x});
  });
  check_error(ErrorKind::Value, "scan",
              [&] { (void)scan([](const auto&, const auto&) -> ScanStep { return {{}, {}}; }, {s}, {x}); });
}
