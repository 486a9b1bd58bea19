// The rules that rewrite a model's graph: which nodes go, which stay, and that values do not change.
#include <doctest/doctest.h>

#include <cmath>

#include "lathe/detail/access.hpp"
#include "onnx/rules.hpp"
#include "support/onnx_builder.hpp"

using namespace lathe;
using namespace lathe::test;

namespace {

/// What the rules did, as "rule: node", and the ops that are left.
struct Rewritten {
  std::vector<std::string> applied, ops;
};

Rewritten rewrite(const onnx::Model& model) {
  onnx::Model::Impl copy = *detail::impl(model);
  std::vector<onnx::AppliedRule> applied;
  onnx::apply_rules(copy, &applied);
  Rewritten out;
  for (const onnx::AppliedRule& rule : applied) out.applied.push_back(rule.rule + ": " + rule.node);
  for (const onnx::NodeDef& node : copy.graph.nodes) out.ops.push_back(node.op);
  return out;
}

using Texts = std::vector<std::string>;

std::vector<float> ramp(size_t count, float first, float step) {
  std::vector<float> values;
  for (size_t k = 0; k < count; ++k) values.push_back(first + step * static_cast<float>(k));
  return values;
}

/// Conv and BatchNormalization with constants; `bias` says whether the convolution has one.
Graph conv_and_norm(bool bias) {
  Graph g;
  g.input("x", DType::F32, {1, 2, 4, 5}).initialiser<float>("w", {3, 2, 3, 3}, ramp(54, -0.4f, 0.02f));
  g.initialiser<float>("b", {3}, {0.5f, -1.0f, 2.0f}).initialiser<float>("scale", {3}, {1.5f, -0.5f, 0.25f});
  g.initialiser<float>("shift", {3}, {0.1f, 0.2f, 0.3f}).initialiser<float>("mean", {3}, {0.3f, -0.7f, 1.1f});
  g.initialiser<float>("variance", {3}, {0.9f, 2.0f, 0.04f});
  g.node("Conv", bias ? Names{"x", "w", "b"} : Names{"x", "w"}, {"c"});
  g.node("BatchNormalization", {"c", "scale", "shift", "mean", "variance"}, {"n"},
         {attribute("epsilon", 0.001)});
  return g;
}

std::vector<float> run(const Graph& g, const Tensor& x) {
  return load(model(g)).compile()({{"x", x}}).at("y").tensor().to_vector<float>();
}

} // namespace

TEST_CASE("identities, and dropouts that drop nothing, go; what the caller or a body reads by name stays") {
  Graph g;
  g.input("x", DType::F32, {3}).node("Identity", {"x"}, {"a"}).node("Dropout", {"a"}, {"d", "mask"});
  g.node("Neg", {"d"}, {"n"}).node("Identity", {"n"}, {"y"}).output("y");
  const Rewritten out = rewrite(load(model(g)));
  CHECK(out.applied == Texts{"identity: Identity_a", "dropout: Dropout_d"});
  CHECK(out.ops == Texts{"Neg", "Identity"});
  CHECK(run(g, Tensor::from({1.f, -2.f, 0.5f})) == std::vector<float>{-1, 2, -0.5f});
}

TEST_CASE("a dropout whose mask is read stays") {
  Graph g;
  g.input("x", DType::F32, {3})
      .node("Dropout", {"x"}, {"d", "mask"})
      .node("Cast", {"mask"}, {"m"}, {attribute("to", 1)});
  g.node("Add", {"d", "m"}, {"y"}).output("y");
  CHECK(rewrite(load(model(g))).applied.empty());
}

TEST_CASE("a transpose that undoes the one before goes") {
  for (const bool undoes : {true, false}) {
    Graph g;
    g.input("x", DType::F32, {2, 3, 4});
    g.node("Transpose", {"x"}, {"t"}, {attribute("perm", std::vector<int64_t>{1, 2, 0})});
    g.node("Transpose", {"t"}, {"u"},
           {attribute("perm", undoes ? std::vector<int64_t>{2, 0, 1} : std::vector<int64_t>{1, 2, 0})});
    g.node("Neg", {"u"}, {"y"}).output("y");
    const Rewritten out = rewrite(load(model(g)));
    CHECK(out.applied == (undoes ? Texts{"transposes: Transpose_u"} : Texts{}));
    const Tensor x = Tensor::from(ramp(24, 0, 1), {2, 3, 4});
    CHECK(run(g, x) == (undoes ? x : x.permute({2, 0, 1})).neg().to_vector<float>());
  }
}

TEST_CASE("a batch norm goes into the convolution before it") {
  const Tensor x = Tensor::from(ramp(40, -1, 0.05f), {1, 2, 4, 5});
  for (const bool bias : {true, false}) {
    Graph folded = conv_and_norm(bias);
    folded.node("Relu", {"n"}, {"y"}).output("y");
    const Rewritten out = rewrite(load(model(folded)));
    CHECK(out.applied == Texts{"batch-norm: BatchNormalization_n"});
    CHECK(out.ops == Texts{"Conv", "Relu"});
    // With the convolution's own result asked for, too, both stay: the same numbers, unfolded.
    Graph plain = conv_and_norm(bias);
    plain.node("Relu", {"n"}, {"y"}).output("y").output("c");
    CHECK(rewrite(load(model(plain))).applied.empty());
    const std::vector<float> a = run(folded, x), b = run(plain, x);
    REQUIRE(a.size() == b.size());
    for (size_t k = 0; k < a.size(); ++k) CHECK(a[k] == doctest::Approx(b[k]).epsilon(1e-5));
  }
}

TEST_CASE("a ConstantOfShape becomes an initialiser, and a batch norm finds it there") {
  Graph g = conv_and_norm(false);
  g.initialiser<int64_t>("sizes", {4}, {3, 3, 1, 1})
      .node("ConstantOfShape", {"sizes"}, {"ones"}, {attribute("value", tensor_proto<float>({1}, {1.f}))});
  g.node("Conv", {"n", "ones"}, {"y"}).output("y");
  const Rewritten out = rewrite(load(model(g)));
  CHECK(out.applied == Texts{"constants: ConstantOfShape_ones", "batch-norm: BatchNormalization_n"});
  CHECK(out.ops == Texts{"Conv", "Conv"});
}

namespace {

/// x, of u8, dequantised, through `between`, quantised and cast. The two scale by "s" and "z", or by what
/// `scale` and `zero` name: "s2" and "z2" are equal to them, "s3" and "z3" are not.
struct Requantised {
  std::vector<std::pair<std::string, Attributes>> between{};
  std::string scale = "s", zero = "z";

  Graph graph() const {
    Graph g;
    g.input("x", DType::U8, {1, 2, 4, 6}).input("fed", DType::F32, {});
    g.initialiser<float>("s", {}, {0.3f})
        .initialiser<float>("s2", {}, {0.3f})
        .initialiser<float>("s3", {}, {0.31f});
    g.initialiser<uint8_t>("z", {}, {37})
        .initialiser<uint8_t>("z2", {}, {37})
        .initialiser<uint8_t>("z3", {}, {36});
    g.initialiser<int64_t>("shape", {2}, {4, -1});
    g.node("DequantizeLinear", {"x", "s", "z"}, {"d"});
    std::string last = "d";
    for (const auto& [op, attributes] : between) {
      const std::string next = last + "n";
      g.node(op, op == "Reshape" ? Names{last, "shape"} : Names{last}, {next}, attributes);
      last = next;
    }
    g.node("QuantizeLinear", {last, scale, zero}, {"q"}).node("Cast", {"q"}, {"y"}, {attribute("to", 1)});
    g.output("y");
    return g;
  }
};

} // namespace

TEST_CASE("a QuantizeLinear that undoes a DequantizeLinear goes, and what moves numbers between them reads "
          "integers") {
  std::vector<uint8_t> bytes;
  for (int k = 0; k < 48; ++k) bytes.push_back(static_cast<uint8_t>(k * 89 + (k == 3 ? -12 : 0)));
  const Tensor x = Tensor::from(bytes, {1, 2, 4, 6});
  const auto got = [&](Graph g) {
    return load(model(g))
        .compile()({{"x", x}, {"fed", Tensor::scalar(0.3f)}})
        .at("y")
        .tensor()
        .to_vector<float>();
  };
  const Attributes turned{attribute("perm", std::vector<int64_t>{0, 2, 1, 3})},
      windows{attribute("kernel_shape", {2, 3}), attribute("strides", {2, 1}),
              attribute("pads", {1, 1, 0, 1})};
  const Requantised chains[] = {
      {},
      {{}, "s2", "z2"},
      {{{"Transpose", turned}}},
      {{{"Transpose", turned}, {"MaxPool", windows}, {"Relu", {}}, {"Reshape", {}}}, "s2"},
  };
  for (const Requantised& chain : chains) {
    const Graph g = chain.graph();
    const Rewritten out = rewrite(load(model(g)));
    CHECK(out.applied == Texts{"requantise: QuantizeLinear_q", "requantise: DequantizeLinear_d"});
    Texts left;
    for (const auto& [op, attributes] : chain.between) left.push_back(op == "Relu" ? "Max" : op);
    left.emplace_back("Cast");
    CHECK(out.ops == left);
    Graph whole = chain.graph(); // whose integers are asked for by name, so that nothing goes
    CHECK(rewrite(load(model(whole.output("q", DType::U8)))).applied.empty());
    CHECK(got(g) == got(whole));
  }
}

TEST_CASE("a QuantizeLinear that rounds stays") {
  const Attributes turned{attribute("perm", std::vector<int64_t>{0, 2, 1, 3})};
  for (const Requantised& chain : {Requantised{{}, "s3"}, {{}, "s", "z3"}, {{}, "fed"}, {{{"Neg", {}}}}})
    CHECK(rewrite(load(model(chain.graph()))).applied.empty());
  // Numbers between the two that something else reads, too.
  Graph read = Requantised{{{"Transpose", turned}}}.graph();
  CHECK(rewrite(load(model(read.node("Neg", {"dn"}, {"n"}).output("n")))).applied.empty());
  // Numbers of each axis, and scales that no f32 keeps apart.
  for (const bool same_axis : {true, false})
    for (const float scale : {0.5f, 0.0f, 1e-40f, INFINITY}) {
      Graph g;
      g.input("x", DType::U8, {2, 2, 3})
          .initialiser<float>("s", {2}, {scale, 0.25f})
          .initialiser<uint8_t>("z", {2}, {1, 2});
      g.node("DequantizeLinear", {"x", "s", "z"}, {"d"}, {attribute("axis", 1)});
      g.node("QuantizeLinear", {"d", "s", "z"}, {"q"}, {attribute("axis", same_axis ? 1 : 0)});
      g.node("Cast", {"q"}, {"y"}, {attribute("to", 1)}).output("y");
      CHECK(rewrite(load(model(g))).applied.empty() == !(same_axis && scale == 0.5f));
    }
  // A DequantizeLinear that something else reads stays, and the QuantizeLinear goes.
  Graph both = Requantised{}.graph();
  CHECK(rewrite(load(model(both.node("Neg", {"d"}, {"n"}).output("n")))).applied ==
        Texts{"requantise: QuantizeLinear_q"});
  // A DequantizeLinear of a QuantizeLinear rounds.
  Graph g;
  g.input("x", DType::F32, {4}).initialiser<float>("s", {}, {0.5f}).initialiser<uint8_t>("z", {}, {3});
  g.node("QuantizeLinear", {"x", "s", "z"}, {"q"})
      .node("DequantizeLinear", {"q", "s", "z"}, {"y"})
      .output("y");
  CHECK(rewrite(load(model(g))).applied.empty());
}
