// ONNX's Gradient: names of the graph it stands in, differentiated at the node's inputs.
#include <doctest/doctest.h>

#include <cmath>

#include "support/onnx_builder.hpp"
#include "support/onnx_node.hpp"

using namespace lathe;
using namespace lathe::test;

namespace {

using Floats = std::vector<float>;
const char* const kTraining = "ai.onnx.preview.training";

Attribute names(const std::string& attribute, const Names& values) {
  Attribute proto = attribute_of_type(attribute, Attribute::STRINGS);
  for (const std::string& value : values) proto.add_strings(value);
  return proto;
}

/// outputs = derivatives of y by xs, where the node is given `inputs` for xs and zs.
void add_gradient(Graph& g, const Names& inputs, const Names& outputs, const std::string& y, const Names& xs,
                  const Names& zs = {}) {
  Attributes attributes{names("xs", xs), attribute("y", y.c_str())};
  if (!zs.empty()) attributes.push_back(names("zs", zs));
  g.node("Gradient", inputs, outputs, attributes, kTraining);
}

onnx::NamedValues run(const Graph& g, const onnx::NamedValues& inputs) {
  return load(model(g, 17, {}, {kTraining})).compile()(inputs);
}
template <class F> void check_error(ErrorKind kind, const std::string& part, F&& f) {
  try {
    f();
    FAIL("no error");
  } catch (const Error& e) {
    CHECK_MESSAGE(e.kind() == kind, e.what());
    CHECK_MESSAGE(std::string(e.what()).find(part) != std::string::npos, e.what());
  }
}

/// y = a * b + a, of vectors.
Graph product_and_sum() {
  Graph g;
  g.input("a", DType::F32, {2}).input("b", DType::F32, {2});
  g.node("Mul", {"a", "b"}, {"m"}).node("Add", {"m", "a"}, {"y"});
  return g;
}
const onnx::NamedValues kInputs{{"a", Tensor::from({2.f, 3.f})}, {"b", Tensor::from({5.f, 7.f})}};

} // namespace

TEST_CASE("by inputs, in the order of xs") {
  Graph g = product_and_sum();
  add_gradient(g, {"b", "a"}, {"db", "da"}, "y", {"b", "a"});
  g.output("y").output("da").output("db");
  const onnx::NamedValues out = run(g, kInputs);
  CHECK(floats(out, "y") == Floats{12, 24});
  CHECK(floats(out, "da") == Floats{6, 8});
  CHECK(floats(out, "db") == Floats{2, 3});
}

TEST_CASE("at other values than those of the names") {
  Graph g = product_and_sum();
  g.node("Neg", {"a"}, {"other"});
  add_gradient(g, {"other", "b"}, {"da", "db"}, "y", {"a", "b"});
  // The same value for both: each has a derivative of its own.
  add_gradient(g, {"b", "b"}, {"ea", "eb"}, "y", {"a", "b"});
  g.output("da").output("db").output("ea").output("eb");
  const onnx::NamedValues out = run(g, kInputs);
  CHECK(floats(out, "da") == Floats{6, 8});
  CHECK(floats(out, "db") == Floats{-2, -3});
  CHECK(floats(out, "ea") == Floats{6, 8});
  CHECK(floats(out, "eb") == Floats{5, 7});
}

TEST_CASE("zs are replaced, too, and what neither names is what it is in the graph") {
  Graph g = product_and_sum();
  g.node("Neg", {"b"}, {"other"});
  add_gradient(g, {"a", "other"}, {"da"}, "y", {"a"}, {"b"});
  add_gradient(g, {"a"}, {"ea"}, "y", {"a"});
  g.output("da").output("ea");
  const onnx::NamedValues out = run(g, kInputs);
  CHECK(floats(out, "da") == Floats{-4, -6});
  CHECK(floats(out, "ea") == Floats{6, 8});
}

TEST_CASE("by values on the way, views among them") {
  Graph g;
  g.input("x", DType::F32, {2, 3});
  g.node("Split", {"x"}, {"left", "right"}, {attribute("axis", 0)});
  g.node("Transpose", {"left"}, {"turned"}).node("MatMul", {"right", "turned"}, {"y"});
  add_gradient(g, {"left", "right"}, {"dl", "dr"}, "y", {"left", "right"});
  add_gradient(g, {"turned"}, {"dt"}, "y", {"turned"});
  add_gradient(g, {"y"}, {"dy"}, "y", {"y"});
  g.output("dl").output("dr").output("dt").output("dy");
  const onnx::NamedValues out = run(g, {{"x", Tensor::from({1.f, 2.f, 3.f, 4.f, 5.f, 6.f}).reshape({2, 3})}});
  CHECK(floats(out, "dl") == Floats{4, 5, 6});
  CHECK(floats(out, "dr") == Floats{1, 2, 3});
  CHECK(floats(out, "dt") == Floats{4, 5, 6});
  CHECK(out.at("dt").shape() == Shape{3, 1});
  CHECK(floats(out, "dy") == Floats{1});
}

TEST_CASE("derivatives of derivatives; nodes in any order; zeros for what y does not depend on") {
  Graph g;
  g.input("x", DType::F32, {2}).input("z", DType::F32, {2});
  add_gradient(g, {"x", "z"}, {"d2", "none"}, "d1", {"x", "z"});
  add_gradient(g, {"x"}, {"d1"}, "y", {"x"});
  g.node("Mul", {"x", "x"}, {"s"}).node("Mul", {"s", "x"}, {"y"});
  g.output("d1").output("d2").output("none");
  const onnx::NamedValues out = run(g, {{"x", Tensor::from({2.f, -1.f})}, {"z", Tensor::from({0.f, 0.f})}});
  CHECK(floats(out, "d1") == Floats{12, 3});
  CHECK(floats(out, "d2") == Floats{12, -6});
  CHECK(floats(out, "none") == Floats{0, 0});
}

TEST_CASE("inside a body, and through one") {
  // If(c) { y = a * a, its derivative by a } else { a }; the derivative of an If by what its bodies read.
  Graph then, otherwise;
  then.node("Mul", {"a", "a"}, {"s"});
  add_gradient(then, {"a"}, {"d"}, "s", {"a"});
  then.output("d");
  otherwise.node("Identity", {"a"}, {"same"}).output("same");
  Graph g;
  g.input("a", DType::F32, {2}).initialiser<bool>("c", {}, {true});
  g.node("If", {"c"}, {"r"}, {attribute("then_branch", then), attribute("else_branch", otherwise)});
  add_gradient(g, {"a"}, {"dr"}, "r", {"a"});
  g.output("r").output("dr");
  const onnx::NamedValues out = run(g, {{"a", Tensor::from({3.f, -4.f})}});
  CHECK(floats(out, "r") == Floats{6, -8});
  CHECK(floats(out, "dr") == Floats{2, 2});
}

TEST_CASE("errors") {
  const auto with = [](const Names& inputs, const std::string& y, const Names& xs) {
    Graph g = product_and_sum();
    add_gradient(g, inputs, {"d"}, y, xs);
    g.output("d");
    run(g, kInputs);
  };
  check_error(ErrorKind::File, "reads 'q', which nothing makes", [&] { with({"a"}, "q", {"a"}); });
  check_error(ErrorKind::File, "differentiates by 'q', which nothing makes",
              [&] { with({"a"}, "y", {"q"}); });
  check_error(ErrorKind::File, "waits for its own output", [&] { with({"a"}, "d", {"a"}); });
  check_error(ErrorKind::Value, "1 inputs, expected 2 for xs and 0 for zs", [&] {
    with({"a"}, "y", {"a", "b"});
  });
  Graph g;
  g.input("a", DType::F32, {2})
      .node("NonZero", {"a"}, {"at"})
      .node("Cast", {"at"}, {"y"}, {attribute("to", 1)});
  add_gradient(g, {"a"}, {"d"}, "y", {"a"});
  g.output("d");
  check_error(ErrorKind::Value, "inside of what a Gradient differentiates", [&] {
    run(g, {{"a", Tensor::from({1.f, 0.f})}});
  });
}

namespace {

struct Slope {
  const char* op;
  double (*derivative)(double);
  Floats at;
};

double over_cosine(double x) { return 1 / std::sqrt((1 - x) * (1 + x)); }

} // namespace

TEST_CASE("smooth functions have their derivatives where their pieces meet and where they overflow") {
  const Slope slopes[] = {
      {"Atan", [](double x) { return 1 / (1 + x * x); }, {0, -0.f, 1, -1, 0.5f, -3, 1e10f, -1e10f}},
      {"Asinh", [](double x) { return 1 / std::hypot(1, x); }, {0, -0.f, 1, -2, 1e-3f, 1e15f, -1e25f}},
      {"Atanh", [](double x) { return 1 / ((1 - x) * (1 + x)); }, {0, -0.f, 0.5f, -0.5f, 0.99f}},
      {"Asin", over_cosine, {0, -0.f, 0.5f, -0.5f, 0.99f, -0.99f}},
      {"Acos", [](double x) { return -over_cosine(x); }, {0, -0.f, 0.5f, -0.5f, 0.99f, -0.99f}},
      {"Acosh", [](double x) { return 1 / std::sqrt((x - 1) * (x + 1)); }, {1.5f, 3, 1e10f, 1e15f, 1e25f}},
      {"Softsign", [](double x) { return std::pow(1 + std::abs(x), -2); }, {0, -0.f, 1, -1, 10}},
      {"Celu", [](double x) { return x < 0 ? std::exp(x) : 1; }, {0, -0.f, 1, -1, 1000, -1000}},
      {"Elu", [](double x) { return x < 0 ? std::exp(x) : 1; }, {0, -0.f, 1, -1, 1000, -1000}},
  };
  for (const Slope& slope : slopes) {
    CAPTURE(slope.op);
    Graph g;
    const auto count = static_cast<int64_t>(slope.at.size());
    g.input("x", DType::F32, {count}).node(slope.op, {"x"}, {"y"});
    add_gradient(g, {"x"}, {"dx"}, "y", {"x"});
    g.output("dx");
    const Floats got = floats(run(g, {{"x", Tensor::from(slope.at)}}), "dx");
    for (size_t k = 0; k < got.size(); ++k) {
      CAPTURE(slope.at[k]);
      const double expected = slope.derivative(slope.at[k]);
      CHECK(std::abs(got[k] - expected) <= 1e-5 * std::abs(expected) + 1e-30);
    }
  }
}

TEST_CASE("a norm has a derivative beside rows of zeros") {
  const Floats x{3, 4, 0, 0, 6e20f, -8e20f}, weight{1, 2, 5, 7, 1e20f, 1e20f};
  // Of the sum of weight * x / |x|: (weight - y * (y, weight)) / |x|. A row of zeros stays as it is.
  Graph g;
  g.input("x", DType::F32, {3, 2}).input("w", DType::F32, {3, 2});
  g.node("LpNormalization", {"x"}, {"n"}).node("Mul", {"n", "w"}, {"y"});
  add_gradient(g, {"x"}, {"dx"}, "y", {"x"});
  g.output("dx");
  const Floats got =
      floats(run(g, {{"x", Tensor::from(x, {3, 2})}, {"w", Tensor::from(weight, {3, 2})}}), "dx");
  for (size_t row = 0; row < 3; ++row) {
    const double a = x[2 * row], b = x[2 * row + 1], norm = std::hypot(a, b), p = weight[2 * row],
                 q = weight[2 * row + 1];
    const double along = norm > 0 ? (a * p + b * q) / norm : 0;
    const double da = norm > 0 ? (p - a / norm * along) / norm : p,
                 db = norm > 0 ? (q - b / norm * along) / norm : q;
    CHECK(std::abs(got[2 * row] - da) <= 1e-5 * (1 + std::abs(da)));
    CHECK(std::abs(got[2 * row + 1] - db) <= 1e-5 * (1 + std::abs(db)));
  }
}
