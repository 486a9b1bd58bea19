// The rules that rewrite a model's graph: which nodes go, which stay, and that values do not change.
#include <doctest/doctest.h>

#include "lathe/detail/access.hpp"
#include "onnx/rules.hpp"
#include "support/onnx_builder.hpp"

using namespace lathe;
using namespace lathe::test;

namespace {

const bool interpreted = (set_default_device("interp"), true);

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
