// Programs whose compile time once doubled with each op, or grew with the square of their length. They are
// long enough that it would not end; the results are those of the same steps done one by one.
#include <doctest/doctest.h>

#include <functional>
#include <numeric>
#include <vector>

#include "support/devices.hpp"

using namespace lathe;

namespace {

using Values = std::vector<float>;

Values transposed(const Values& v, size_t rows, size_t columns) {
  Values out(v.size());
  for (size_t r = 0; r < rows; ++r)
    for (size_t c = 0; c < columns; ++c) out[c * rows + r] = v[r * columns + c];
  return out;
}

/// One step, on a tensor and on its elements.
struct Step {
  std::function<Tensor(const Tensor&, int)> build;
  std::function<Values(const Values&, int)> run;
};

void check_chain(const Step& step, const Shape& shape, int length, bool with_ops) {
  Tensor y = Tensor::input("x", shape);
  Values want(static_cast<size_t>(num_elements(shape).value()));
  std::iota(want.begin(), want.end(), 1.0f);
  const Tensor data = Tensor::from(want, shape);
  for (int k = 0; k < length; ++k) {
    y = step.build(y, k);
    want = step.run(want, k);
    if (!with_ops) continue;
    y = y + 1.0;
    for (float& v : want) ++v;
  }
  for (const std::string& device : present_devices()) {
    CAPTURE(device);
    CHECK(compile({{"y", y}}, on(device))({{"x", data}}).at("y").to_vector<float>() == want);
  }
}

} // namespace

TEST_CASE("transposes and reshapes that no view expresses") {
  const Step step{
      [](const Tensor& y, int k) { return y.transpose().reshape(k % 2 ? Shape{6, 10} : Shape{4, 15}); },
      [](const Values& v, int k) { return k % 2 ? transposed(v, 4, 15) : transposed(v, 6, 10); }};
  for (const bool with_ops : {false, true}) check_chain(step, {6, 10}, 48, with_ops);
}

TEST_CASE("channels shuffled again and again") {
  const Step step{
      [](const Tensor& y, int) { return y.reshape({3, 4, 16}).permute({1, 0, 2}).reshape({12, 16}); },
      [](const Values& v, int) {
        Values out(v.size());
        for (size_t c = 0; c < 12; ++c)
          std::copy_n(v.begin() + static_cast<long>(16 * c), 16,
                      out.begin() + static_cast<long>(16 * (c % 4 * 3 + c / 4)));
        return out;
      }};
  for (const bool with_ops : {false, true}) check_chain(step, {12, 16}, 48, with_ops);
}

TEST_CASE("rows shifted against each other by padding and reshaping") {
  const Step step{[](const Tensor& y, int) {
                    return y.pad({{0, 0}, {1, 0}}).reshape({10, 8}).shrink({{1, 10}, {0, 8}}).reshape({8, 9});
                  },
                  [](const Values& v, int) {
                    Values padded;
                    for (size_t k = 0; k < v.size(); ++k) {
                      if (k % 9 == 0) padded.push_back(0);
                      padded.push_back(v[k]);
                    }
                    return Values(padded.begin() + 8, padded.end());
                  }};
  for (const bool with_ops : {false, true}) check_chain(step, {8, 9}, 48, with_ops);
}

TEST_CASE("a recurrence with two live values") {
  Tensor a = Tensor::input("x", {19}), b = a * 0.5;
  double u = 1, v = 0.5;
  for (int k = 0; k < 1000; ++k) {
    const Tensor next = (a + b) * 0.5;
    a = b, b = next;
    const double sum = (u + v) / 2;
    u = v, v = sum;
  }
  const auto got = compile({{"y", b}}, on("cpu"))({{"x", Tensor::ones({19})}}).at("y").to_vector<float>();
  for (const float y : got) CHECK(y == doctest::Approx(v).epsilon(1e-6));
}

TEST_CASE("a long sum of a value of which each step is read several times, and its gradient") {
  constexpr int64_t kSize = 100'003;
  const Tensor x = Tensor::input("x", {kSize}), r = Tensor::input("r", {1});
  Tensor y = x;
  for (int k = 0; k < 60; ++k) y = r * y * (1 - y);
  const Tensor sum = y.sum(), gradient = gradients(sum, {r})[0];
  const std::vector<float> values = Tensor::rand({kSize}, 5).to_vector<float>();
  double want = 0, slope = 0;
  for (const float value : values) {
    double v = value, dv = 0;
    for (int k = 0; k < 60; ++k) dv = v * (1 - v) + 2.9 * dv * (1 - 2 * v), v = 2.9 * v * (1 - v);
    want += v, slope += dv;
  }
  const auto got = compile({{"sum", sum}, {"gradient", gradient}},
                           on("cpu"))({{"x", Tensor::from(values, {kSize})}, {"r", Tensor::full({1}, 2.9f)}});
  CHECK(got.at("sum").item<float>() == doctest::Approx(want).epsilon(1e-6));
  CHECK(got.at("gradient").item<float>() == doctest::Approx(slope).epsilon(1e-5));
}

TEST_CASE("a power of integers that are data") {
  const Tensor base = Tensor::input("x", {4, 1, 1}, DType::U64),
               exponent = Tensor::input("e", {4, 3, 7}, DType::U64);
  const std::vector<uint64_t> bases{3, 0, 7, 0x8000000000000001u};
  std::vector<uint64_t> exponents(84), want;
  for (size_t k = 0; k < 84; ++k) exponents[k] = k * 5 % 63;
  for (size_t k = 0; k < 84; ++k) {
    uint64_t p = 1;
    for (uint64_t i = 0; i < exponents[k]; ++i) p *= bases[k / 21];
    want.push_back(p);
  }
  const NamedTensors inputs{{"x", Tensor::from(bases, {4, 1, 1})}, {"e", Tensor::from(exponents, {4, 3, 7})}};
  CHECK(compile({{"y", pow(base, exponent)}}, on("cpu"))(inputs).at("y").to_vector<uint64_t>() == want);
}

TEST_CASE("reductions of constants and broadcasts, whatever their size") {
  const int64_t n = 100'000'000;
  CHECK(Tensor::ones({n}).prod().item<float>() == 1);
  CHECK(Tensor::full({n}, -2.5f).max().item<float>() == -2.5f);
  CHECK(Tensor::ones({10'000'000}, DType::I32).sum().item<int64_t>() == 10'000'000);
  const Tensor b = Tensor::input("b", {8});
  const auto sums =
      compile({{"y", b.expand({1'000'000, 8}).sum(0)}}, on("cpu"))({{"b", Tensor::iota({8}, 0, DType::F32)}})
          .at("y")
          .to_vector<float>();
  for (size_t k = 0; k < 8; ++k) CHECK(sums[k] == 1e6f * static_cast<float>(k));
}
