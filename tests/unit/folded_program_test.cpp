// Programs with weights: their constant parts are computed when they are compiled, and the rest as before.
#include <doctest/doctest.h>

#include <cmath>

#include "support/devices.hpp"
#include "support/messages.hpp"

using namespace lathe;

namespace {

std::vector<float> waves(int64_t n, float step) {
  std::vector<float> v(static_cast<size_t>(n));
  for (size_t k = 0; k < v.size(); ++k) v[k] = std::sin(step * static_cast<float>(k));
  return v;
}

} // namespace

TEST_CASE(
    "weights normalised by their own sums cost one kernel, and the values are those of the whole graph") {
  const int64_t rows = 5, inner = 7, columns = 9;
  const std::vector<float> xs = waves(rows * inner, 0.3f), ws = waves(inner * columns, 0.7f);
  const Tensor x = Tensor::input("x", {rows, inner}), w = Tensor::from(ws, {inner, columns});
  const Tensor y = x.matmul(w / (w * w).sum(0, true).sqrt());
  std::vector<double> expected;
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < columns; ++j) {
      double sum = 0, squares = 0;
      for (int64_t k = 0; k < inner; ++k) {
        const double weight = ws[k * columns + j];
        squares += weight * weight;
        sum += xs[i * inner + k] * weight;
      }
      expected.push_back(sum / std::sqrt(squares));
    }
  for (const std::string& device : present_devices()) {
    CAPTURE(device);
    const Executable f = compile({{"y", y}}, on(device));
    CHECK(f.kernel_count() == 1);
    CHECK(f.inputs().size() == 1);
    for (int call = 0; call < 2; ++call) {
      const std::vector<float> got = f({{"x", Tensor::from(xs, {rows, inner})}}).at("y").to_vector<float>();
      REQUIRE(got.size() == expected.size());
      for (size_t k = 0; k < got.size(); ++k) CHECK(got[k] == doctest::Approx(expected[k]).epsilon(1e-5));
    }
  }
}

TEST_CASE("a program of constants alone has no kernel left") {
  const Tensor a = Tensor::from(std::vector<float>{1, 2, 3, 4}, {2, 2});
  const Executable f = compile({{"y", a * a + a}, {"t", (a * 2).transpose()}}, on("interp"));
  CHECK(f.kernel_count() == 0);
  const NamedTensors out = f({});
  CHECK(out.at("y").to_vector<float>() == std::vector<float>{2, 6, 12, 20});
  CHECK(out.at("t").to_vector<float>() == std::vector<float>{2, 6, 4, 8});
  std::vector<float> y(4), t(4);
  f.run({}, {{"y", y.data()}, {"t", t.data()}});
  CHECK(y == std::vector<float>{2, 6, 12, 20});
  CHECK(t == std::vector<float>{2, 6, 4, 8});
}

TEST_CASE("realising a constant expression computes it once and for all") {
  const Tensor a = Tensor::from(std::vector<float>{1, 2, 3}), b = a * a + 1;
  CHECK(b.to_vector<float>() == std::vector<float>{2, 5, 10});
  const Tensor x = Tensor::input("x", {3});
  const Executable f = compile({{"y", x * b}}, on("interp"));
  CHECK(f.kernel_count() == 1);
  CHECK(f({{"x", a}}).at("y").to_vector<float>() == std::vector<float>{2, 10, 30});
}

TEST_CASE("an input that only a constant part would have used away is still declared") {
  const Tensor x = Tensor::input("x", {3}), a = Tensor::from(std::vector<float>{1, 2, 3});
  const Executable f = compile({{"y", x + a * a}}, on("interp"));
  CHECK(f({{"x", a}}).at("y").to_vector<float>() == std::vector<float>{2, 6, 12});
  CHECK_THROWS_AS(f({}), Error);
}

TEST_CASE("moves replay on the folded program, and emitted source holds the value") {
  const Tensor x = Tensor::input("x", {16}), w = Tensor::from(waves(16, 0.5f));
  const NamedTensors program{{"y", x * (w + 3)}};
  const Executable f = compile(program, on("interp"));
  CompileOptions again = on("interp");
  again.moves = f.moves();
  const Executable g = compile(program, again);
  const Tensor at = Tensor::from(waves(16, 0.1f));
  CHECK(f({{"x", at}}).at("y").to_vector<float>() == g({{"x", at}}).at("y").to_vector<float>());
  EmitOptions emit_options;
  emit_options.compile = on("interp");
  const std::string text = emit(program, emit_options);
  CHECK(text.find("data1") != std::string::npos); // the input after x
  CHECK(text.find("data2") == std::string::npos);
}

TEST_CASE("a program says how many bytes were computed ahead") {
  const Tensor table =
      (Tensor::iota({96, 32}, 1).cast(DType::F32) * 0.25 + Tensor::iota({96, 32}, 0).cast(DType::F32)).sin();
  const NamedTensors program{{"y", Tensor::input("x", {32, 96}).matmul(table)}};
  CompileOptions options{.device = default_device(), .threads = 1, .use_database = false};
  const Executable ahead = compile(program, options);
  CHECK(ahead.folded_bytes() == 96 * 32 * 4);
  options.folded_bytes = 0;
  const Executable unfolded = compile(program, options);
  CHECK(unfolded.folded_bytes() == 0);
  CHECK(compile({{"y", Tensor::input("x", {7}) * 2.0f}}, options).folded_bytes() == 0);
  options.folded_bytes = -1;
  test::mentions(test::message_of([&] { compile({{"y", Tensor::input("x", {11}) * 3.0f}}, options); }),
                 "folded_bytes = -1");
}
