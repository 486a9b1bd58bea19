// Loops whose states change their shapes, or whose number of iterations depends on what the model is fed: the
// body is a program of its own, and iterations compile nothing once sizes have differed. Values are those of
// plain loops.
#include <doctest/doctest.h>

#include <functional>

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

using Floats = std::vector<float>;

Tensor count_of(int64_t count) { return Tensor::full({}, count); }

Graph growing_body() {
  Graph body;
  body.input("i", DType::I64).input("go", DType::Bool);
  return body;
}

/// rows [r, 2] grow by `step` [1, 2] times the number of the iteration, until their sum is `bound` or there
/// were `most` iterations. Each iteration also gives the mean of the rows, [2].
std::string growing_model() {
  Graph body = growing_body(), g;
  body.input("rows", DType::F32, {"r", 2});
  body.node("Cast", {"i"}, {"f"}, {attribute("to", onnx_dtype(DType::F32))})
      .node("Mul", {"f", "step"}, {"row"});
  body.node("Concat", {"rows", "row"}, {"more"}, {attribute("axis", 0)});
  body.node("ReduceSum", {"more"}, {"sum"}, {attribute("keepdims", 0)});
  body.node("Less", {"sum", "bound"}, {"go_on"});
  body.node("ReduceMean", {"more"}, {"mean"},
            {attribute("axes", std::vector<int64_t>{0}), attribute("keepdims", 0)});
  body.output("go_on", DType::Bool).output("more").output("mean");
  g.input("rows_in", DType::F32, {"k", 2}).input("step", DType::F32, {1, 2}).input("bound", DType::F32);
  g.input("most", DType::I64).input("start", DType::Bool);
  g.node("Loop", {"most", "start", "rows_in"}, {"rows_out", "means"}, {attribute("body", body)});
  return model(g.output("rows_out").output("means"));
}

struct Growth {
  int64_t rows, most;
  float bound;
  bool start = true;
};

NamedValues inputs_of(const Growth& growth) {
  return {{"rows_in", Tensor::from(numbers(growth.rows * 2, 1), {growth.rows, 2})},
          {"step", Tensor::from(Floats{0.5f, 1.5f}, {1, 2})},
          {"bound", Tensor::full({}, growth.bound)},
          {"most", count_of(growth.most)},
          {"start", Tensor::full({}, growth.start)}};
}

void check_growth(const Program& program, const Growth& growth) {
  CAPTURE(growth.rows);
  CAPTURE(growth.most);
  CAPTURE(growth.bound);
  Floats rows = numbers(growth.rows * 2, 1);
  std::vector<double> means;
  bool goes_on = growth.start;
  for (int64_t k = 0; k < growth.most && goes_on; ++k) {
    rows.push_back(static_cast<float>(k) * 0.5f);
    rows.push_back(static_cast<float>(k) * 1.5f);
    double sums[2] = {};
    for (size_t i = 0; i < rows.size(); ++i) sums[i % 2] += static_cast<double>(rows[i]);
    for (const double sum : sums) means.push_back(sum / static_cast<double>(rows.size() / 2));
    goes_on = sums[0] + sums[1] < static_cast<double>(growth.bound);
  }
  const NamedValues out = program(inputs_of(growth));
  CHECK(floats(out.at("rows_out")) == rows);
  CHECK(out.at("means").shape() == Shape{static_cast<int64_t>(means.size() / 2), 2});
  check_close(out.at("means"), means);
}

const std::vector<Growth> kGrowths{{3, 5, 1e9f},        {4, 9, 1e9f},  {2, 30, 100.f}, {5, 0, 1e9f},
                                   {3, 7, 1e9f, false}, {1, 12, 30.f}, {7, 1, 0.f},    {2, 40, 500.f}};

} // namespace

TEST_CASE("a state that grows, for as many iterations as are fed or until a sum is reached") {
  for (const char* device : {"interp", "c", "cpu"}) {
    CAPTURE(device);
    const Program program = load(growing_model()).compile({.compile = {.device = device, .threads = 1}});
    for (const Growth& growth : kGrowths) check_growth(program, growth);
    const size_t segments = program.segments().size();
    for (const Growth& growth : {Growth{6, 20, 1e9f}, Growth{9, 3, 1e9f}, Growth{4, 100, 900.f}})
      check_growth(program, growth);
    CHECK(program.segments().size() == segments);
  }
}

TEST_CASE("a saved program keeps its loops' bodies") {
  const TemporaryDir folder;
  const Program program = load(growing_model()).compile();
  for (const Growth& growth : {kGrowths[0], kGrowths[1]}) check_growth(program, growth);
  onnx::save(program, folder.file("p.lathe"));
  const Program loaded = onnx::load_program(folder.file("p.lathe"));
  CHECK(loaded.segments().size() == program.segments().size());
  check_growth(loaded, {3, 50, 1e9f});
  CHECK(loaded.segments().size() == program.segments().size());
  for (const Growth& growth : kGrowths) check_growth(loaded, growth);
  onnx::save(loaded, folder.file("again.lathe"));
  for (const Growth& growth : kGrowths) check_growth(onnx::load_program(folder.file("again.lathe")), growth);
}

TEST_CASE("two states that grow alike meet in a product") {
  // Attention over a cache: the last key and value are made of the query.
  Graph body = growing_body(), g;
  body.input("x", DType::F32, {1, 2})
      .input("keys", DType::F32, {"t", 2})
      .input("values", DType::F32, {"t", 2});
  body.node("MatMul", {"x", "w"}, {"key"}).node("Concat", {"keys", "key"}, {"k"}, {attribute("axis", 0)});
  body.node("Concat", {"values", "x"}, {"v"}, {attribute("axis", 0)});
  body.node("Transpose", {"k"}, {"kt"}).node("MatMul", {"x", "kt"}, {"scores"});
  body.node("Softmax", {"scores"}, {"p"}).node("MatMul", {"p", "v"}, {"y"});
  body.node("Identity", {"go"}, {"go_on"});
  body.output("go_on", DType::Bool).output("y").output("k").output("v");
  g.input("x0", DType::F32, {1, 2})
      .input("n", DType::I64)
      .initialiser<float>("w", {2, 2}, {0.5f, -1, 0.25f, 1});
  g.input("k0", DType::F32, {"t0", 2}).input("v0", DType::F32, {"t1", 2});
  g.node("Loop", {"n", "", "x0", "k0", "v0"}, {"y", "k", "v"}, {attribute("body", body)});
  const Program program = load(model(g.output("y").output("k").output("v"))).compile();
  size_t segments = 0;
  for (const auto& [cache, n] :
       std::vector<std::pair<int64_t, int64_t>>{{3, 4}, {5, 2}, {0, 5}, {2, 6}, {4, 9}, {7, 20}}) {
    CAPTURE(cache);
    std::vector<double> x{0.5, -0.25}, k, v;
    for (const float number : numbers(cache * 2, 2)) k.push_back(number);
    for (const float number : numbers(cache * 2, 3)) v.push_back(number);
    for (int64_t i = 0; i < n; ++i) {
      k.insert(k.end(), {x[0] * 0.5 + x[1] * 0.25, x[1] - x[0]});
      v.insert(v.end(), x.begin(), x.end());
      double sum = 0, y[2] = {};
      for (size_t row = 0; row < k.size(); row += 2) {
        const double p = std::exp(x[0] * k[row] + x[1] * k[row + 1]);
        sum += p;
        for (size_t j = 0; j < 2; ++j) y[j] += p * v[row + j];
      }
      x = {y[0] / sum, y[1] / sum};
    }
    const auto tensor = [&](unsigned seed) { return Tensor::from(numbers(cache * 2, seed), {cache, 2}); };
    const NamedValues out = program({{"x0", Tensor::from(Floats{0.5f, -0.25f}, {1, 2})},
                                     {"n", count_of(n)},
                                     {"k0", tensor(2)},
                                     {"v0", tensor(3)}});
    check_close(out.at("y"), x);
    check_close(out.at("k"), k);
    check_close(out.at("v"), v);
    if (cache == 4) segments = program.segments().size();
  }
  CHECK(program.segments().size() == segments);
}

TEST_CASE("loops in loops and branches, that read what stands around them") {
  // Row n of a triangle: outer iterations make rows 0, 1 ... of lengths that grow, inner ones add numbers one
  // by one.
  Graph inner = growing_body(), then_branch, else_branch, outer = growing_body(), g;
  inner.input("row", DType::I64, {"m"})
      .node("Add", {"i", "j"}, {"sum"})
      .node("Unsqueeze", {"sum", "axis"}, {"one"});
  inner.node("Concat", {"row", "one"}, {"longer"}, {attribute("axis", 0)}).node("Identity", {"go"}, {"on"});
  inner.output("on", DType::Bool).output("longer", DType::I64);
  then_branch.node("Neg", {"all2"}, {"negative"}).output("negative", DType::I64);
  else_branch.node("Identity", {"all2"}, {"same"}).output("same", DType::I64);
  outer.input("all", DType::I64, {"m"}).node("Identity", {"i"}, {"j"});
  outer.node("Loop", {"i", "", "empty"}, {"row"}, {attribute("body", inner)});
  outer.node("Concat", {"all", "row"}, {"all2"}, {attribute("axis", 0)});
  outer.node("Mod", {"i", "two"}, {"odd"})
      .node("Cast", {"odd"}, {"is_odd"}, {attribute("to", onnx_dtype(DType::Bool))});
  outer.node("If", {"is_odd"}, {"all3"},
             {attribute("then_branch", then_branch), attribute("else_branch", else_branch)});
  outer.node("Identity", {"go"}, {"on2"}).output("on2", DType::Bool).output("all3", DType::I64);
  g.input("n", DType::I64).initialiser<int64_t>("axis", {1}, {0}).initialiser<int64_t>("empty", {0}, {});
  g.initialiser<int64_t>("two", {}, {2});
  g.node("Loop", {"n", "", "empty"}, {"y"}, {attribute("body", outer)}).output("y", DType::I64);
  const Program program = load(model(g)).compile();
  for (const int64_t n : {4, 2, 0, 7, 6, 1}) {
    CAPTURE(n);
    std::vector<int64_t> want;
    for (int64_t j = 0; j < n; ++j) {
      for (int64_t i = 0; i < j; ++i) want.push_back(i + j);
      if (j % 2)
        for (int64_t& number : want) number = -number;
    }
    const onnx::Value y = program({{"n", count_of(n)}}).at("y");
    CHECK(y.shape() == Shape{static_cast<int64_t>(want.size())});
    CHECK(y.tensor().to_vector<int64_t>() == want);
  }
}

TEST_CASE("what a loop can't do is an error that names it, and the program goes on") {
  // A stacked output whose parts differ, and a part of a state that gets shorter than that.
  Graph body = growing_body(), g;
  body.input("s", DType::F32, {"m"}).node("Concat", {"s", "s"}, {"t"}, {attribute("axis", 0)});
  body.node("Identity", {"go"}, {"on"}).output("on", DType::Bool).output("t").output("t");
  g.input("x", DType::F32, {"n"}).input("trips", DType::I64);
  g.node("Loop", {"trips", "", "x"}, {"last", "all"}, {attribute("body", body)}).output("last").output("all");
  const Program program = load(model(g)).compile();
  const Tensor x = Tensor::from(Floats{1, 2});
  CHECK(program({{"x", x}, {"trips", count_of(1)}}).at("all").shape() == Shape{1, 4});
  const std::string message = message_of([&] { program({{"x", x}, {"trips", count_of(3)}}); });
  mentions(message, "Loop");
  mentions(message, "'t'");
  CHECK(program({{"x", x}, {"trips", count_of(0)}}).at("all").shape() == Shape{0, 4});
  CHECK(program({{"x", x}, {"trips", count_of(1)}}).at("last").shape() == Shape{4});
}

TEST_CASE("a loop in a function, whose body reads the function's attributes") {
  Function grow("my.ops", "Grow", {"x", "n"}, {"y"});
  grow.takes(attribute("slope", 0.5));
  Graph body = growing_body(), g;
  body.input("s", DType::F32, {"m"});
  body.node("LeakyRelu", {"s"}, {"t"}, {reference("alpha", "slope", Attribute::FLOAT)});
  body.node("Concat", {"t", "x"}, {"u"}, {attribute("axis", 0)}).node("Identity", {"go"}, {"on"});
  body.output("on", DType::Bool).output("u");
  grow.node("Loop", {"n", "", "x"}, {"y"}, {attribute("body", body)});
  g.input("x", DType::F32, {2}).input("n", DType::I64);
  g.node("Grow", {"x", "n"}, {"y"}, {attribute("slope", 0.25)}, "my.ops").output("y");
  const Program program = load(model(g, 17, {grow})).compile();
  size_t segments = 0;
  for (const int64_t n : {3, 5, 0, 9, 20}) {
    Floats want{-2, 4};
    for (int64_t k = 0; k < n; ++k) {
      for (float& number : want) number = number < 0 ? number * 0.25f : number;
      want.insert(want.end(), {-2, 4});
    }
    CHECK(floats(program({{"x", Tensor::from(Floats{-2, 4})}, {"n", count_of(n)}}).at("y")) == want);
    if (n == 5) segments = program.segments().size();
  }
  CHECK(program.segments().size() == segments);
}

TEST_CASE("a state that becomes another dtype is an error that names it and the loop") {
  Graph body = growing_body(), g;
  body.input("s", DType::F32, {"m"}).node("Concat", {"s", "s"}, {"t"}, {attribute("axis", 0)});
  body.node("Cast", {"t"}, {"whole"}, {attribute("to", onnx_dtype(DType::I32))});
  body.node("Identity", {"go"}, {"on"}).output("on", DType::Bool).output("whole", DType::I32);
  g.input("x", DType::F32, {2}).input("n", DType::I64);
  g.node("Loop", {"n", "", "x"}, {"y"}, {attribute("body", body)}).output("y");
  const Program program = load(model(g)).compile();
  const std::string message =
      message_of([&] { program({{"x", Tensor::from(Floats{1, 2})}, {"n", count_of(1)}}); });
  mentions(message, "Loop");
  mentions(message, "state 's' becomes i32[4]");
}

TEST_CASE("no iteration of a body that could not run gives nothing") {
  Graph body = growing_body(), g;
  body.input("s", DType::F32, {"m"}).node("Add", {"s", "x"}, {"t"}).node("Identity", {"go"}, {"on"});
  body.node("Concat", {"t", "t"}, {"longer"}, {attribute("axis", 0)});
  body.output("on", DType::Bool).output("longer").output("t", DType::F32, {{"m"}});
  g.input("s0", DType::F32, {2}).input("x", DType::F32, {3}).input("n", DType::I64);
  g.node("Loop", {"n", "", "s0"}, {"last", "all"}, {attribute("body", body)}).output("last").output("all");
  const Program program = load(model(g)).compile();
  const NamedValues inputs{
      {"s0", Tensor::from(Floats{1, 2})}, {"x", Tensor::from(Floats{1, 2, 3})}, {"n", count_of(0)}};
  const NamedValues out = program(inputs);
  CHECK(floats(out.at("last")) == Floats{1, 2});
  CHECK(out.at("all").shape() == Shape{0, 0});
  NamedValues once = inputs;
  once["n"] = count_of(1);
  mentions(message_of([&] { program(once); }), "Add");
}
