// The seed case, and how many kernels programs become when the cost model alone decides.
#include <doctest/doctest.h>

#include "support/devices.hpp"

using namespace lathe;

namespace {

Executable compiled(const Tensor& y, const std::string& device = default_device()) {
  return compile({{"y", y}}, on(device, 1));
}
size_t kernels(const Tensor& y) { return compiled(y).kernel_count(); }
Tensor in(const char* name, const Shape& shape) { return Tensor::input(name, shape); }

} // namespace

TEST_CASE("relu((A + B) * C) + D is right and one kernel on every device") {
  const std::vector<float> seed{-1, 4, -2, 5, 1, 5, 7, 9}, want{1, 36, 6, 55, 3, 55, 105, 171};
  Tensor y = ((in("A", {8}) + in("B", {8})) * in("C", {8})).relu() + in("D", {8});
  NamedTensors inputs;
  for (const char* name : {"A", "B", "C", "D"}) inputs.emplace(name, Tensor::from(seed));
  CHECK(present_devices().size() >= 2); // c and interp are always there
  for (const std::string& device : present_devices()) {
    CAPTURE(device);
    Executable f = compiled(y, device);
    CHECK(f.kernel_count() == 1);
    CHECK(f(inputs).at("y").to_vector<float>() == want);
  }
}

TEST_CASE("softmax over rows is one kernel with no matrix between") {
  for (const std::string& device : present_devices()) {
    CAPTURE(device);
    Executable f = compiled(in("x", {4096, 1024}).softmax(-1), device);
    CHECK(f.kernel_count() == 1);
    CHECK(f.arena_bytes() == 0);
  }
}

TEST_CASE("a matrix product with bias and gelu is one kernel") {
  CHECK(kernels((in("x", {128, 64}).matmul(in("w", {64, 96})) + in("b", {96})).gelu()) == 1);
}

TEST_CASE("movement ops add no kernel") {
  Tensor x = in("x", {24, 32});
  CHECK(kernels(x.transpose() * 2) == 1);
  CHECK(kernels(x.flip({0, 1}) * 2) == 1);
  CHECK(kernels(in("r", {32}).expand({24, 32}) * x) == 1);
  CHECK(kernels(x.pad({{1, 1}, {2, 0}}) + 1) == 1);
  CHECK(kernels(x.reshape({32, 24}).transpose().shrink({{2, 20}, {4, 30}}).exp()) == 1);
  // Two matrix products stay as many with movement before and behind.
  Tensor square = in("q", {32, 32});
  CHECK(kernels(square.transpose().matmul(square).transpose() + 1) == kernels(square.matmul(square) + 1));
}

TEST_CASE("a transpose, flip or expand by itself is no kernel") {
  const std::vector<float> values{0, 1, 2, 3, 4, 5};
  const Tensor x = Tensor::from(values, {2, 3});
  Tensor r = in("r", {2, 3}), row = in("row", {3});
  const auto f = lathe::compile({{"transposed", r.transpose()},
                                 {"flipped", r.flip({1})},
                                 {"expanded", row.expand({2, 3})},
                                 {"padded", r.pad({{1, 0}, {0, 0}})},
                                 {"same", r}});
  CHECK(f.kernel_count() == 0);
  const auto out = f({{"r", x}, {"row", Tensor::from({7.f, 8.f, 9.f})}});
  CHECK(out.at("transposed").to_vector<float>() == std::vector<float>{0, 3, 1, 4, 2, 5});
  CHECK(out.at("flipped").to_vector<float>() == std::vector<float>{2, 1, 0, 5, 4, 3});
  CHECK(out.at("expanded").to_vector<float>() == std::vector<float>{7, 8, 9, 7, 8, 9});
  CHECK(out.at("padded").to_vector<float>() == std::vector<float>{0, 0, 0, 0, 1, 2, 3, 4, 5});
  CHECK(out.at("same").to_vector<float>() == values);
  // Into memory of the caller's, beside an output that is computed.
  const auto g = lathe::compile({{"a", r.transpose()}, {"b", r * 2}});
  CHECK(g.kernel_count() == 1);
  std::vector<float> a(6, -1.f), b(6, -1.f);
  g.run({{"r", values.data()}}, {{"a", a.data()}, {"b", b.data()}});
  CHECK(a == std::vector<float>{0, 3, 1, 4, 2, 5});
  CHECK(b == std::vector<float>{0, 2, 4, 6, 8, 10});
}
