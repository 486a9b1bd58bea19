// Versions of a program for sizes that its model names: when one is made, that calls take it, and that values
// are those of the program for all sizes.
#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include "lathe/program_file.hpp"
#include "support/files.hpp"
#include "support/messages.hpp"
#include "support/onnx_builder.hpp"
#include "support/onnx_numbers.hpp"

using namespace lathe;
using namespace lathe::test;
using onnx::NamedValues;
using onnx::Program;

namespace {

const std::vector<float> kWeights{1, -2, 3, 4, 0.5f, -6};

/// y [n, 2] = x [n, 3] times weights, and its sum over rows, next to which sizes are integers.
std::string rows_model() {
  Graph g;
  g.input("x", DType::F32, {"n", 3}).initialiser<float>("w", {3, 2}, kWeights);
  g.node("MatMul", {"x", "w"}, {"y"}).node("Shape", {"x"}, {"sizes"});
  return model(g.output("y").output("sizes", DType::I64));
}

Tensor rows(int64_t n) { return Tensor::from(numbers(3 * n, static_cast<unsigned>(n)), {n, 3}); }

/// Whether the program's values for n rows are right.
bool is_right(const Program& program, int64_t n) {
  const NamedValues out = program({{"x", rows(n)}});
  const std::vector<float> x = numbers(3 * n, static_cast<unsigned>(n)), y = floats(out.at("y"));
  bool right = out.at("y").shape() == Shape{n, 2} &&
               out.at("sizes").tensor().to_vector<int64_t>() == std::vector<int64_t>{n, 3};
  for (size_t i = 0; i < static_cast<size_t>(n) && right; ++i)
    for (size_t j = 0; j < 2; ++j) {
      double sum = 0;
      for (size_t k = 0; k < 3; ++k) sum += static_cast<double>(x[i * 3 + k]) * kWeights[k * 2 + j];
      right &= std::abs(y[i * 2 + j] - sum) < 1e-5;
    }
  return right;
}

/// The static shapes of the segments' first outputs, and "n" for the program for all sizes.
std::string made(const Program& program) {
  std::string text;
  for (const Executable& segment : program.segments())
    text += to_string(segment.outputs().at(0).shape[0]) + " ";
  return text;
}

/// Convolutions without padding, and pooling whose padding depends on the size, over images of named sizes.
std::string windows_model(const Dim& batch, const Dim& height, const Dim& width) {
  Graph g;
  g.input("x", DType::F32, {batch, 1, height, width});
  g.initialiser<float>("w", {2, 1, 3, 3}, numbers(18, 1))
      .initialiser<float>("v", {1, 2, 3, 3}, numbers(18, 2));
  g.node("Conv", {"x", "w"}, {"a"});
  g.node("MaxPool", {"a"}, {"b"},
         {attribute("kernel_shape", std::vector<int64_t>{2, 2}),
          attribute("strides", std::vector<int64_t>{2, 2}), attribute("auto_pad", "SAME_UPPER")});
  g.node("Conv", {"b", "v"}, {"c"});
  const Attributes ceiling{attribute("kernel_shape", std::vector<int64_t>{3, 3}),
                           attribute("strides", std::vector<int64_t>{2, 2}), attribute("ceil_mode", 1)};
  g.node("MaxPool", {"c"}, {"y"}, ceiling).node("AveragePool", {"c"}, {"mean"}, ceiling);
  return model(g.output("y").output("mean"));
}

/// Whether images of these sizes give what a program of these sizes gives.
bool is_as_fixed(const Program& program, int64_t batch, int64_t height, int64_t width) {
  const NamedValues inputs{
      {"x", Tensor::from(numbers(batch * height * width, 3), {batch, 1, height, width})}};
  const NamedValues got = program(inputs), want = load(windows_model(batch, height, width)).compile()(inputs);
  bool equal = true;
  for (const char* name : {"y", "mean"}) {
    const std::vector<float> a = floats(got.at(name)), b = floats(want.at(name));
    equal &= got.at(name).shape() == want.at(name).shape() &&
             std::equal(a.begin(), a.end(), b.begin(), b.end(),
                        [](float x, float y) { return std::abs(x - y) <= 1e-5f; });
  }
  return equal;
}

} // namespace

TEST_CASE("the first sizes get a version, other sizes share a program, and sizes that come again get one") {
  const Program program = load(rows_model()).compile();
  CHECK(made(program) == "");
  CHECK(is_right(program, 5));
  CHECK(made(program) == "5 ");
  CHECK(is_right(program, 1));
  CHECK(made(program) == "n 5 ");
  CHECK(is_right(program, 7));
  CHECK(is_right(program, 1));
  CHECK(made(program) == "n 5 ");
  CHECK(is_right(program, 1));
  CHECK(made(program) == "n 1 5 ");
  for (const int64_t n : {5, 1, 17, 17, 17, 16, 16, 9, 9, 5, 9, 9}) CHECK(is_right(program, n));
  CHECK(made(program) == "n 1 16 17 5 "); // four versions, so that 9 has none
  mentions(program.print(), "if n = 17");
}

TEST_CASE("without versions there is one program, made at once") {
  const Program program = load(rows_model()).compile({.versions = 0});
  CHECK(made(program) == "n ");
  for (const int64_t n : {5, 5, 5, 1}) CHECK(is_right(program, n));
  CHECK(made(program) == "n ");
  onnx::ImportOptions moved;
  moved.compile.moves = program.segments().at(0).moves();
  if (moved.compile.moves.empty()) return; // nothing to replay on this device
  const Program replayed = load(rows_model()).compile(moved);
  CHECK(made(replayed) == "n ");
  CHECK(is_right(replayed, 3));
}

TEST_CASE("options that make no sense are refused before the first call") {
  const onnx::Model model = load(rows_model());
  CHECK_THROWS_AS(model.compile({.compile = {.device = "abacus"}}), Error);
  CHECK_THROWS_AS(model.compile({.compile = {.threads = -1}}), Error);
  CHECK_THROWS_AS(model.compile({.compile = {.cpu = "z80"}}), Error);
}

TEST_CASE("fixed sizes have no versions, and a version fixes the others") {
  Graph g;
  g.input("x", DType::F32, {"n", "m"})
      .input("y", DType::F32, {"m"})
      .node("Add", {"x", "y"}, {"z"})
      .output("z");
  onnx::ImportOptions options;
  options.sizes["n"] = 2;
  const Program program = load(model(g)).compile(options);
  const auto call = [&](int64_t m) {
    const NamedValues out =
        program({{"x", Tensor::ones({2, m}).realise()}, {"y", Tensor::ones({m}).realise()}});
    CHECK(floats(out.at("z")) == std::vector<float>(static_cast<size_t>(2 * m), 2));
  };
  call(3), call(4), call(4);
  const std::vector<Executable> segments = program.segments();
  REQUIRE(segments.size() == 3);
  CHECK(segments[0].outputs()[0].shape[0] == Expr(2));
  CHECK(!is_static(segments[0].outputs()[0].shape));
  CHECK(segments[1].outputs()[0].shape == Shape{2, 3});
  CHECK(segments[2].outputs()[0].shape == Shape{2, 4});
}

TEST_CASE("versions leave numbers of steps open, unless a convolution goes along the steps") {
  const auto model_of = [](bool convolves) {
    Graph g;
    g.input("x", DType::F32, {"n", 1, 3}).initialiser<float>("w", {1, 8, 3}, numbers(24, 1));
    g.initialiser<float>("r", {1, 8, 2}, numbers(16, 2)).initialiser<float>("k", {3, 3, 3}, numbers(27, 3));
    if (convolves) {
      g.node("Transpose", {"x"}, {"channels"}, {attribute("perm", std::vector<int64_t>{1, 2, 0})});
      g.node("Conv", {"channels", "k"}, {"mixed"}, {attribute("pads", std::vector<int64_t>{1, 1})});
      g.node("Transpose", {"mixed"}, {"rows"}, {attribute("perm", std::vector<int64_t>{2, 0, 1})});
    }
    g.node("LSTM", {convolves ? "rows" : "x", "w", "r"}, {"y"}, {attribute("hidden_size", 2)});
    return load(model(g.output("y")));
  };
  for (const bool convolves : {false, true}) {
    const Program program = model_of(convolves).compile(), one = model_of(convolves).compile({.versions = 0});
    for (const int64_t n : {5, 4, 4}) {
      const NamedValues inputs{{"x", Tensor::from(numbers(n * 3, 4), {n, 1, 3})}};
      const std::vector<float> want = floats(one(inputs).at("y"));
      check_close(program(inputs).at("y"), {want.begin(), want.end()}, 1e-6);
    }
    CHECK(made(program) == (convolves ? "n 4 5 " : "n "));
  }
}

TEST_CASE(
    "four named sizes share a program, in narrower bounds, and larger sizes are traced as they are fed") {
  Graph g;
  g.input("x", DType::F32, {"a", "b", "c", "d"}).node("Add", {"x", "x"}, {"y"}).output("y");
  const Program program = load(model(g)).compile({.versions = 0});
  CHECK(made(program) == "a ");
  const TemporaryDir folder;
  onnx::save(program, folder.file("p.lathe"));
  for (const Program& called : {program, onnx::load_program(folder.file("p.lathe"))}) {
    for (const Shape& shape : {Shape{2, 3, 4, 5}, Shape{1, 5, 1, 7}, Shape{1, 1, 70000, 1}}) {
      const NamedValues out = called({{"x", Tensor::ones(shape).realise()}});
      CHECK(out.at("y").shape() == shape);
      const std::vector<float> values = floats(out.at("y"));
      CHECK(std::all_of(values.begin(), values.end(), [](float value) { return value == 2; }));
    }
    CHECK(made(called) == "a 1 "); // the second for 70000, which no kernel for all sizes takes
  }
}

TEST_CASE("bounds narrow where the kernels' buffers don't fit, and versions don't need them") {
  Graph g; // 64 channels, so that a layer of 65536^3 would need 2^56 bytes
  g.input("x", DType::F32, {"n", 1, "h", "w"}).initialiser<float>("k", {64, 1, 1, 1}, numbers(64, 1));
  g.node("Conv", {"x", "k"}, {"y"}).output("y");
  const Program program = load(model(g)).compile();
  const std::vector<float> k = numbers(64, 1);
  for (const Shape& shape :
       {Shape{1, 1, 1, 5000}, Shape{2, 1, 3, 4}, Shape{1, 1, 2, 3}, Shape{1, 1, 1, 5000}}) {
    const std::vector<float> x = numbers(num_elements(shape).value(), 2);
    const NamedValues out = program({{"x", Tensor::from(x).reshape(shape)}});
    const std::vector<float> y = floats(out.at("y"));
    const int64_t n = shape[0].value(), area = shape[2].value() * shape[3].value();
    REQUIRE(y.size() == static_cast<size_t>(n * 64 * area));
    bool right = true;
    for (int64_t at = 0; at < n * 64 * area; ++at)
      right &= y[static_cast<size_t>(at)] == x[static_cast<size_t>(at / (64 * area) * area + at % area)] *
                                                 k[static_cast<size_t>(at / area % 64)];
    CHECK(right);
  }
  CHECK(made(program) == "n 1 "); // and no other: the last call takes the version of the first
}

TEST_CASE("a version that an op refuses leaves the call to the program for all sizes") {
  onnx::register_op("my.domain", "EvenRows", 1, [](onnx::Call& call) -> std::vector<onnx::Value> {
    const Expr size = call.tensor(0).shape()[0];
    if (size.is_const() && size.value() % 2) call.fail(ErrorKind::Shape, "its rows are odd");
    return {call.tensor(0) * 2.0};
  });
  Graph g;
  g.input("x", DType::F32, {"n"}).node("EvenRows", {"x"}, {"y"}, {}, "my.domain").output("y");
  const Program program = load(model(g, 17, {}, {"my.domain"})).compile();
  for (const int64_t n : {3, 3, 4, 4, 3}) {
    const NamedValues out = program({{"x", Tensor::ones({n}).realise()}});
    CHECK(floats(out.at("y")) == std::vector<float>(static_cast<size_t>(n), 2));
  }
  CHECK(made(program) == "n 4 ");
}

TEST_CASE("threads that call at once get versions once, and right values") {
  const Program program = load(rows_model()).compile();
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (int64_t t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (int64_t k = 0; k < 40; ++k) wrong += !is_right(program, 1 + (t + k / 8) % 6);
    });
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == 0);
  CHECK(program.segments().size() <= 5);
}

TEST_CASE("a file holds the versions there are, and a loaded program makes others") {
  const TemporaryDir folder;
  const Program program = load(rows_model()).compile();
  CHECK(is_right(program, 5));
  onnx::save(program, folder.file("p.lathe")); // with the program for all sizes, so that few calls compile
  CHECK(made(program) == "n 5 ");
  const Program loaded = onnx::load_program(folder.file("p.lathe"));
  CHECK(loaded.print() == program.print());
  CHECK(made(loaded) == "n 5 ");
  for (const int64_t n : {5, 6, 7, 7, 5}) CHECK(is_right(loaded, n));
  CHECK(made(loaded) == "n 5 7 ");
}

TEST_CASE("windows that need a least size leave one program for all sizes from there on") {
  onnx::ImportOptions options;
  options.versions = 0;
  const Program program = load(windows_model("n", "height", "width")).compile(options);
  CHECK(program.segments().size() == 1);
  for (const int64_t height : {16, 17, 18, 19, 40})
    for (const int64_t width : {16, 21, 22, 23}) CHECK(is_as_fixed(program, 1, height, width));
  CHECK(is_as_fixed(program, 3, 33, 16));
  CHECK(program.segments().size() == 1);
  CHECK(is_as_fixed(program, 1, 15, 20)); // smaller, though the windows still fit
  CHECK(program.segments().size() == 2);

  const TemporaryDir folder;
  onnx::save(program, folder.file("p.lathe"));
  const Program loaded = onnx::load_program(folder.file("p.lathe"));
  CHECK(is_as_fixed(loaded, 2, 31, 17));
  CHECK(loaded.segments().size() == 2);
  CHECK(is_as_fixed(loaded, 1, 12, 12));
  CHECK(loaded.segments().size() == 3);
}
