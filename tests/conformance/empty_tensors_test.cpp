// Tensors without elements: NumPy's meaning of each function over nothing, on each device; sizes that are 0
// at run time; programs with empty inputs and outputs, in files and in C.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "lathe/program_file.hpp"
#include "support/devices.hpp"
#include "support/errors.hpp"
#include "support/files.hpp"

using namespace lathe;
using namespace lathe::test;

namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
using Floats = std::vector<float>;

Floats floats(const Tensor& t) { return t.cast(DType::F32).to_vector<float>(); }

/// Whether the value has the shape, and no elements.
void check_empty(const Tensor& t, const Shape& shape) {
  CHECK(to_string(t.shape()) == to_string(shape));
  CHECK(t.element_count() == 0);
  CHECK(floats(t).empty());
}

/// The program of one output "y", called on the device.
Tensor called(const std::string& device, const Tensor& y, const NamedTensors& inputs) {
  return compile({{"y", y}}, on(device))(inputs).at("y");
}

} // namespace

TEST_CASE("reductions of nothing") {
  for (const std::string& device : present_devices()) {
    INFO(device);
    set_default_device(device);
    const Tensor x = Tensor::zeros({0, 3});
    CHECK(floats(x.sum(0)) == Floats{0, 0, 0});
    CHECK(!std::signbit(floats(x.sum(0))[0]));
    CHECK(floats(x.prod({0})) == Floats{1, 1, 1});
    CHECK(floats(x.max(0)) == Floats{-kInf, -kInf, -kInf});
    CHECK(floats(x.min({0, 1})) == Floats{kInf});
    CHECK(floats(x.logsumexp({0})) == Floats{-kInf, -kInf, -kInf});
    CHECK(std::isnan(x.mean().item<float>()));
    CHECK(floats(x.any({0})) == Floats{0, 0, 0});
    CHECK(floats(x.all()) == Floats{1});
    CHECK(x.cast(DType::I32).sum().item<int64_t>() == 0);
    check_empty(x.sum(1), {0});
    check_empty(x.max({1}, true), {0, 1});
    check_empty(x.argmax(1), {0});
    check_empty(x.var({1}), {0});
    check_empty(x.softmax(1), {0, 3});
    check_empty(x.cumsum(0), {0, 3});
    check_empty(x.sort(0), {0, 3});
  }
  set_default_device("cpu");
}

TEST_CASE("what nothing has no value of is an error") {
  const Tensor x = Tensor::zeros({0, 3}), i = x.cast(DType::I32);
  check_error(ErrorKind::Value, "max", [&] { (void)(i.max(0)); });
  check_error(ErrorKind::Value, "min", [&] { (void)(i.min()); });
  check_error(ErrorKind::Value, "argmax", [&] { (void)(x.argmax()); });
  check_error(ErrorKind::Value, "argmin", [&] { (void)(x.argmin(0)); });
  check_error(ErrorKind::Value, "var", [&] { (void)(x.var({0})); });
  check_error(ErrorKind::Value, "median", [&] { (void)(median(x, 0)); });
  check_error(ErrorKind::Value, "index", [&] { (void)(x.index({0})); });
  check_error(ErrorKind::Shape, "reshape", [&] { (void)(x.reshape({0, -1})); });
  check_error(ErrorKind::Shape, "reshape", [&] { (void)(x.reshape({1})); });
  check_error(ErrorKind::Shape, "zeros", [&] { (void)(Tensor::zeros({-1})); });
  check_error(ErrorKind::Shape, "operator+", [&] { (void)(x + Tensor::zeros({2, 3})); });
  check_error(ErrorKind::Shape, "window", [&] { (void)(x.window(0, 1)); });
}

TEST_CASE("movements and products of nothing") {
  const Tensor x = Tensor::zeros({0, 3}), y = Tensor::from({1.f, 2.f, 3.f}).reshape({1, 3});
  check_empty(x.reshape({3, 0, 7}), {3, 0, 7});
  check_empty(x.flatten(), {0});
  check_empty(x.transpose(), {3, 0});
  check_empty(y.expand({0, 3}), {0, 3});
  check_empty(x + y, {0, 3});
  check_empty(y.index({Slice{1, 1}}), {0, 3});
  check_empty(y.index({Slice{}, Slice{5, 2}}), {1, 0});
  check_empty(y.repeat({0, 2}), {0, 6});
  check_empty(x.roll(2, 0), {0, 3});
  check_empty(y.take(Tensor::zeros({0, 2}, DType::I64)), {0, 2, 3});
  check_empty(x.matmul(Tensor::zeros({3, 4})), {0, 4});
  check_empty(Tensor::arange(3, 3), {0});
  check_empty(Tensor::linspace(0, 1, 0), {0});
  check_empty(Tensor::randn({2, 0}, 1), {2, 0});
  check_empty(nonzero(Tensor::zeros({4})), {0, 1});
  check_empty(unique(x).first, {0});
  check_empty(Tensor::from(Floats{}), {0});
  CHECK(floats(Tensor::zeros({2, 0}).matmul(Tensor::zeros({0, 2}))) == Floats{0, 0, 0, 0});
  CHECK(floats(x.pad({{1, 1}, {0, 0}}, 7)) == Floats{7, 7, 7, 7, 7, 7});
  CHECK(floats(concat({x, y, x}, 0)) == Floats{1, 2, 3});
  CHECK(floats(y.scatter_add(0, Tensor::zeros({0, 3}, DType::I64), x)) == Floats{1, 2, 3});
  const std::vector<Tensor> parts = y.split({0, 3, 0}, 1);
  check_empty(parts[0], {1, 0});
  CHECK(floats(parts[1]) == Floats{1, 2, 3});
  check_empty(parts[2], {1, 0});
}

TEST_CASE("a program with inputs and outputs of no elements") {
  const Tensor past = Tensor::input("past", {0, 3}), step = Tensor::input("step", {1, 3});
  const NamedTensors outputs{{"all", concat({past, step}, 0)}, {"past2", past * 2.0}, {"same", past}};
  const Tensor one = Tensor::from({{1.f, 2.f, 3.f}});
  for (const std::string& device : present_devices()) {
    INFO(device);
    const Executable run = compile(outputs, on(device));
    CHECK(run.inputs().size() == 2); // also what no kernel reads
    const NamedTensors got = run({{"past", Tensor::zeros({0, 3})}, {"step", one}});
    CHECK(floats(got.at("all")) == Floats{1, 2, 3});
    check_empty(got.at("past2"), {0, 3});
    check_empty(got.at("same"), {0, 3});
    Floats all(3, -1);
    const Floats in{4, 5, 6};
    run.run({{"past", nullptr}, {"step", in.data()}},
            {{"all", all.data()}, {"past2", nullptr}, {"same", nullptr}});
    CHECK(all == in);
    CHECK_THROWS_AS(run.run({{"past", nullptr}, {"step", nullptr}},
                            {{"all", all.data()}, {"past2", nullptr}, {"same", nullptr}}),
                    Error);
  }
}

TEST_CASE("a Var from 0") {
  const Expr n = Var("n", 0, 100);
  const Tensor x = Tensor::input("x", {n, 3}), w = Tensor::arange(12).cast(DType::F32).reshape({3, 4});
  const auto program = [&](const Tensor& in) {
    return NamedTensors{{"product", in.matmul(w)},
                        {"sum", in.sum(0)},
                        {"product_of_all", (in * 0.0 + 1.0).prod()},
                        {"largest", in.max(0)},
                        {"mean", in.mean({0})},
                        {"joined", concat({in, Tensor::ones({2, 3})}, 0)},
                        {"gram", in.transpose().matmul(in)},
                        {"softmax", in.softmax(1)},
                        {"over_rows", in.softmax(0)},
                        {"scan", in.cumsum(0)},
                        {"sorted", in.sort(0)},
                        {"flat", in.reshape({-1})},
                        {"rows", in.take(Tensor::from(std::vector<int64_t>{0, -1}))}};
  };
  for (const std::string& device : present_devices()) {
    const Executable run = compile(program(x), on(device));
    for (const int64_t rows : {0, 1, 17, 100, 0}) {
      INFO(device, " n = ", rows);
      set_default_device("interp");
      const Tensor in = (Tensor::iota({rows, 3}, 0) * 3 + Tensor::iota({rows, 3}, 1)).cast(DType::F32) * 0.25;
      const NamedTensors got = run({{"x", in}});
      for (const auto& [name, want] : program(in)) {
        INFO(name);
        REQUIRE(to_string(got.at(name).shape()) == to_string(want.shape()));
        const Floats a = floats(got.at(name)), b = floats(want);
        for (size_t k = 0; k < a.size(); ++k) {
          const bool alike = a[k] == b[k] || (std::isnan(a[k]) && std::isnan(b[k])) ||
                             std::abs(a[k] - b[k]) <= 2e-6f * std::abs(b[k]);
          CHECK_MESSAGE(alike, k, ": ", a[k], " for ", b[k]);
        }
      }
    }
    set_default_device("cpu");
    CHECK(floats(run({{"x", Tensor::zeros({0, 3})}}).at("sum")) == Floats{0, 0, 0});
    CHECK(floats(run({{"x", Tensor::zeros({0, 3})}}).at("largest")) == Floats{-kInf, -kInf, -kInf});
  }
}

TEST_CASE("derivatives by nothing, and through it") {
  const Tensor x = Tensor::input("x", {0, 3}), w = Tensor::input("w", {3, 2});
  const std::vector<Tensor> d = gradients(x.matmul(w).sum() + w.square().sum(), {x, w});
  check_empty(called("cpu", d[0], {}), {0, 3}); // no input says more
  const NamedTensors fed{{"w", Tensor::ones({3, 2})}};
  CHECK(floats(called("cpu", d[1], fed)) == Floats{2, 2, 2, 2, 2, 2});
}

TEST_CASE("a program file") {
  const Expr n = Var("n", 0, 8);
  const Tensor x = Tensor::input("x", {n, 2}), none = Tensor::input("none", {0});
  const TemporaryDir folder;
  const std::string path = folder.file("p.lathe");
  save(compile({{"sum", x.sum()}, {"kept", concat({none, x.flatten()}, 0)}, {"none2", none + 1.0}}), path);
  const Executable run = load_executable(path);
  for (const int64_t rows : {0, 3}) {
    const NamedTensors got = run({{"x", Tensor::ones({rows, 2})}, {"none", Tensor::zeros({0})}});
    CHECK(got.at("sum").item<float>() == static_cast<float>(2 * rows));
    CHECK(got.at("kept").element_count() == 2 * rows);
    check_empty(got.at("none2"), {0});
  }
}
