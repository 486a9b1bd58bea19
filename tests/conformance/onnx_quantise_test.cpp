// Whole models quantised: their integers against plain loops, their outputs against the model in f32.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "lathe/detail/access.hpp"
#include "lathe/onnx/quantise.hpp"
#include "lathe/onnx/serialise.hpp"
#include "onnx/graph.hpp"
#include "support/normal_numbers.hpp"
#include "support/onnx_builder.hpp"

using namespace lathe;
using namespace lathe::test;

namespace {

Tensor drawn(const Shape& shape, unsigned seed) {
  size_t count = 1;
  for (const Expr size : shape) count *= static_cast<size_t>(size.value());
  return Tensor::from(normal(count, seed), shape);
}

onnx::QuantiseOptions on_interpreter(onnx::QuantiseOptions options = {}) {
  options.import.compile.device = "interp";
  return options;
}

const onnx::GraphDef& graph_of(const onnx::Model& model) { return detail::impl(model)->graph; }

std::vector<std::string> ops_of(const onnx::Model& model, const std::string& op) {
  std::vector<std::string> names;
  for (const onnx::NodeDef& node : graph_of(model).nodes)
    if (node.op == op) names.push_back(node.name);
  return names;
}

const onnx::QuantisedLayer& layer(const onnx::Quantised& made, const std::string& node) {
  const auto found = std::find_if(made.layers.begin(), made.layers.end(),
                                  [&](const onnx::QuantisedLayer& l) { return l.node == node; });
  REQUIRE(found != made.layers.end());
  return *found;
}

/// The outputs of the quantised model, and that its file computes the same.
onnx::NamedValues outputs_of(const onnx::Quantised& made, const onnx::NamedValues& inputs) {
  const onnx::ImportOptions import = on_interpreter().import;
  const onnx::NamedValues outputs = made.model.compile(import)(inputs),
                          read = load(onnx::serialise(made.model)).compile(import)(inputs);
  for (const auto& [name, value] : outputs) CHECK(onnx::compare(read.at(name), value, 0.0).why == "");
  return outputs;
}

/// One product: y[m, n] = x[m, k] w[k, n].
struct QuantisedProduct {
  static constexpr size_t kRows = 5, kTerms = 37, kColumns = 11;
  std::vector<float> x = normal(kRows * kTerms, 1), w = normal(kTerms * kColumns, 2, 0.1f);

  Graph graph() const {
    Graph g;
    g.input("x", DType::F32, {"rows", int64_t{kTerms}}).initialiser<float>("w", {kTerms, kColumns}, w);
    g.node("MatMul", {"x", "w"}, {"y"}).output("y");
    return g;
  }
  onnx::NamedValues sample() const { return {{"x", Tensor::from(x, {int64_t{kRows}, int64_t{kTerms}})}}; }
  /// By weights as they are quantised, for given steps of a column.
  std::vector<double> expected(const std::vector<double>& inputs, const std::vector<double>& weights) const {
    std::vector<double> y(kRows * kColumns);
    for (size_t m = 0; m < kRows; ++m)
      for (size_t n = 0; n < kColumns; ++n)
        for (size_t k = 0; k < kTerms; ++k)
          y[m * kColumns + n] += inputs[m * kTerms + k] * weights[k * kColumns + n];
    return y;
  }
};

void check_products(const onnx::Value& got, const std::vector<double>& expected) {
  const std::vector<float> values = got.tensor().to_vector<float>();
  REQUIRE(values.size() == expected.size());
  for (size_t k = 0; k < values.size(); ++k) CHECK(values[k] == doctest::Approx(expected[k]).epsilon(1e-4));
}

double relative(const std::vector<double>& got, const std::vector<double>& expected) {
  double changed = 0, all = 0;
  for (size_t k = 0; k < got.size(); ++k)
    changed += std::pow(got[k] - expected[k], 2), all += std::pow(expected[k], 2);
  return std::sqrt(changed / all);
}

} // namespace

TEST_CASE("a product of integers is what plain loops make of it") {
  const QuantisedProduct p;
  const onnx::Quantised made = onnx::quantise(load(model(p.graph())), {p.sample()}, on_interpreter());
  // Scales: of the range of x, and of each column of w.
  const auto [low, high] = std::minmax_element(p.x.begin(), p.x.end());
  const float step = static_cast<float>((static_cast<double>(*high) - *low) / 255);
  const double zero = std::nearbyint(-*low / step);
  std::vector<double> inputs, weights(p.w.size());
  for (const float value : p.x)
    inputs.push_back(
        (std::clamp(std::nearbyint(value / static_cast<double>(step)) + zero, 0.0, 255.0) - zero) * step);
  std::vector<int8_t> codes(p.w.size());
  for (size_t n = 0; n < p.kColumns; ++n) {
    double largest = 0;
    for (size_t k = 0; k < p.kTerms; ++k)
      largest = std::max<double>(largest, std::abs(p.w[k * p.kColumns + n]));
    const float scale = static_cast<float>(largest / 127);
    for (size_t k = n; k < p.w.size(); k += p.kColumns) {
      codes[k] = static_cast<int8_t>(std::nearbyint(p.w[k] / static_cast<double>(scale)));
      weights[k] = codes[k] * static_cast<double>(scale);
    }
  }
  CHECK(graph_of(made.model).initialisers.at("w.i8").tensor().to_vector<int8_t>() == codes);
  CHECK(graph_of(made.model).initialisers.count("w") == 0);
  const std::vector<double> expected = p.expected(inputs, weights);
  check_products(outputs_of(made, p.sample()).at("y"), expected);
  // What the report says is what the loops say.
  const std::vector<double> plain = p.expected({p.x.begin(), p.x.end()}, {p.w.begin(), p.w.end()});
  REQUIRE(made.layers.size() == 1);
  CHECK(made.layers[0].node == "MatMul_y");
  CHECK(made.layers[0].format == "i8");
  CHECK(made.layers[0].weights == std::vector<int64_t>{37, 11});
  CHECK(*made.layers[0].own_error == doctest::Approx(relative(expected, plain)).epsilon(0.01));
  CHECK(*made.layers[0].error == doctest::Approx(relative(expected, plain)).epsilon(0.01));
  REQUIRE(made.outputs.size() == 1);
  CHECK(made.outputs[0].error == doctest::Approx(relative(expected, plain)).epsilon(0.01));
  CHECK(made.outputs[0].error > 1e-4);
  CHECK(made.outputs[0].error < 0.02);
}

TEST_CASE("weights alone: 4 bits in blocks, the last of them shorter, and 8 bits by channel") {
  const QuantisedProduct p;
  for (const int bits : {4, 8})
    for (const bool with_sample : {false, true}) {
      const int64_t block = bits == 4 ? 16 : 37; // of 37 terms: 16, 16 and 5
      const double most = bits == 4 ? 7 : 127;
      const auto samples =
          with_sample ? std::vector<onnx::NamedValues>{p.sample()} : std::vector<onnx::NamedValues>{};
      const onnx::Quantised made = onnx::quantise(load(model(p.graph())), samples,
                                                  on_interpreter({.weights_only = bits, .block = 16}));
      std::vector<double> weights(p.w.size());
      for (size_t k = 0; k < p.w.size(); ++k) {
        const size_t term = k / p.kColumns, column = k % p.kColumns;
        const size_t first = term / static_cast<size_t>(block) * static_cast<size_t>(block);
        double largest = 0;
        for (size_t j = first; j < std::min(p.kTerms, first + static_cast<size_t>(block)); ++j)
          largest = std::max<double>(largest, std::abs(p.w[j * p.kColumns + column]));
        const float scale = static_cast<float>(largest / most);
        weights[k] = std::nearbyint(p.w[k] / static_cast<double>(scale)) * scale;
      }
      check_products(outputs_of(made, p.sample()).at("y"), p.expected({p.x.begin(), p.x.end()}, weights));
      CHECK(made.layers[0].format == (bits == 4 ? "w4" : "w8"));
      CHECK(made.layers[0].error.has_value() == with_sample);
      if (!with_sample)
        CHECK(*made.layers[0].own_error ==
              doctest::Approx(relative(weights, {p.w.begin(), p.w.end()})).epsilon(1e-3));
      CHECK(made.model.opsets().at("") == (bits == 4 ? 21 : 17));
      CHECK(ops_of(made.model, "QuantizeLinear").empty());
    }
}

namespace {

/// Weights that layers share, on either side of a product, and used by another node; products with alpha and
/// beta; a value that two layers read.
Graph odd_products() {
  Graph g;
  g.input("x", DType::F32, {"n", 6}).initialiser<float>("w", {6, 5}, normal(30, 11));
  g.initialiser<float>("v", {4, 5}, normal(20, 12)).initialiser<float>("b", {4}, normal(4, 13));
  g.initialiser<float>("left", {3, 4}, normal(12, 14));
  g.node("Constant", {}, {"u"}, {attribute("value", tensor_proto<float>({6, 2}, normal(12, 15)))});
  g.node("MatMul", {"x", "w"}, {"first"}).node("Relu", {"first"}, {"r"});
  g.node("MatMul", {"x", "w"}, {"second"}).node("Neg", {"second"}, {"minus"});
  g.node("MatMul", {"x", "u"}, {"third"}).output("third");
  g.node("ReduceSum", {"w"}, {"sum"}, {attribute("keepdims", 0)}).output("sum");
  g.node("Add", {"r", "minus"}, {"a"});
  g.node("Gemm", {"a", "v", "b"}, {"gemm"},
         {attribute("transB", 1), attribute("alpha", 0.5), attribute("beta", 2.0)});
  g.node("Transpose", {"gemm"}, {"t"}).node("MatMul", {"left", "t"}, {"y"}).output("y");
  // Constant, but by a node: the weights' own transposition.
  g.node("Transpose", {"v"}, {"turned"}).node("MatMul", {"a", "turned"}, {"z"}).output("z");
  return g;
}

} // namespace

TEST_CASE("shared weights, products with the constant on the left, values with two readers") {
  const onnx::Model given = load(model(odd_products()));
  std::vector<onnx::NamedValues> samples;
  for (const int rows : {3, 8, 1})
    samples.push_back({{"x", drawn({rows, 6}, 20 + static_cast<unsigned>(rows))}});
  for (const int bits : {0, 8, 4}) {
    CAPTURE(bits);
    const onnx::Quantised made =
        onnx::quantise(given, samples, on_interpreter({.weights_only = bits, .block = 3}));
    REQUIRE(made.layers.size() == 6);
    for (const onnx::QuantisedLayer& l : made.layers) {
      CAPTURE(l.node);
      CHECK(l.format == (bits == 0 ? "i8" : bits == 8 ? "w8" : "w4"));
      CHECK(*l.own_error > 0);
      CHECK(*l.own_error < (bits == 4 ? 0.15 : 0.02));
    }
    CHECK(layer(made, "MatMul_y").weights == std::vector<int64_t>{3, 4});
    CHECK(layer(made, "MatMul_z").weights == std::vector<int64_t>{5, 4});
    for (const onnx::QuantisedOutput& output : made.outputs) {
      CAPTURE(output.name);
      CHECK(output.error < (bits == 4 ? 0.3 : 0.05));
      CHECK((output.error == 0) == (output.name == "sum"));
    }
    // x, a (by two layers) and t; w once for two layers, u, v, left, turned, and the bias.
    CHECK(ops_of(made.model, "QuantizeLinear").size() == (bits == 0 ? 3 : 0));
    CHECK(ops_of(made.model, "DequantizeLinear").size() == (bits == 0 ? 3 + 5 + 1 : 5));
    CHECK(graph_of(made.model).initialisers.count("w") == 1); // the sum reads it
    CHECK(graph_of(made.model).initialisers.count("v") == 0);
    for (const onnx::NamedValues& sample : samples) outputs_of(made, sample);
  }
}

TEST_CASE("convolutions by output channel, in groups and with a bias") {
  Graph g;
  g.input("x", DType::F32, {"n", 4, 7, 5}).initialiser<float>("b", {6}, normal(6, 31));
  std::vector<float> weights = normal(6 * 2 * 3 * 3, 32);
  for (size_t k = 0; k < weights.size(); ++k)
    weights[k] *= std::pow(10.0f, static_cast<float>(k / 18) - 3); // channels differ
  g.initialiser<float>("w", {6, 2, 3, 3}, weights);
  g.node("Conv", {"x", "w", "b"}, {"c"}, {attribute("group", 2)}).node("Relu", {"c"}, {"r"});
  g.initialiser<float>("d", {3, 6, 1, 1}, normal(18, 33))
      .node("Conv", {"r", "d"}, {"y"})
      .output("y")
      .output("c");
  const std::vector<onnx::NamedValues> samples{{{"x", drawn({2, 4, 7, 5}, 34)}},
                                               {{"x", drawn({1, 4, 7, 5}, 35)}}};
  for (const int bits : {0, 8}) {
    const onnx::Quantised made =
        onnx::quantise(load(model(g)), samples, on_interpreter({.weights_only = bits}));
    const Tensor codes = graph_of(made.model).initialisers.at("w.i8").tensor();
    const std::vector<int8_t> integers = codes.to_vector<int8_t>();
    for (size_t channel = 0; channel < 6; ++channel) {
      int largest = 0;
      for (size_t k = 0; k < 18; ++k) largest = std::max(largest, std::abs(int{integers[channel * 18 + k]}));
      CHECK(largest == 127); // of each channel, small as it may be
    }
    CHECK(made.outputs[0].error < 0.02);
    CHECK(graph_of(made.model).initialisers.count("b") == 0); // as i32, or corrected
    outputs_of(made, samples[0]);
  }
  // Filters with fewer input channels than a block have one scale; four bits go far with it.
  const onnx::Quantised coarse =
      onnx::quantise(load(model(g)), samples, on_interpreter({.weights_only = 4, .block = 4}));
  CHECK(layer(coarse, "Conv_c").format == "w4");
  CHECK(*layer(coarse, "Conv_y").own_error < 0.2);
  outputs_of(coarse, samples[1]);
}

TEST_CASE("biases make up for how rounded weights move a channel's mean") {
  for (const bool is_conv : {true, false})
    for (const bool has_bias : {true, false}) {
      CAPTURE(is_conv);
      CAPTURE(has_bias);
      Graph g;
      const Names inputs = has_bias ? Names{"x", "w", "b"} : Names{"x", "w"};
      g.initialiser<float>("b", {7}, normal(7, 61));
      if (is_conv) {
        g.input("x", DType::F32, {"n", 3, 5, 5}).initialiser<float>("w", {7, 3, 2, 2}, normal(84, 62));
        g.node("Conv", inputs, {"y"}).output("y");
      } else {
        g.input("x", DType::F32, {"n", 12}).initialiser<float>("w", {7, 12}, normal(84, 62));
        g.node("Gemm", inputs, {"y"}, {attribute("transB", 1), attribute("beta", -2.0)}).output("y");
      }
      // All positive: rounding errors of weights add up the same way in each sample.
      std::vector<onnx::NamedValues> samples;
      for (unsigned k = 0; k < 3; ++k) {
        const Tensor x = is_conv ? drawn({2, 3, 5, 5}, 63 + k) : drawn({20, 12}, 63 + k);
        samples.push_back({{"x", (x * 0.1 + 3.0).realise()}});
      }
      const auto mean_shift = [&](bool corrects, double& error) {
        onnx::QuantiseOptions options =
            on_interpreter({.weights_only = 4, .block = 0, .correct_bias = corrects});
        std::vector<double> sums(7), counts(7);
        options.observe = [&](size_t, const onnx::NamedValues& before, const onnx::NamedValues& after) {
          const Tensor shift = (after.at("y").tensor() - before.at("y").tensor());
          const std::vector<float> values = shift.to_vector<float>();
          const size_t run = is_conv ? 16 : 1;
          for (size_t k = 0; k < values.size(); ++k) sums[k / run % 7] += values[k], ++counts[k / run % 7];
        };
        const onnx::Quantised made = onnx::quantise(load(model(g)), samples, options);
        CHECK(*made.layers[0].own_error == doctest::Approx(*made.layers[0].error).epsilon(0.05));
        error = made.outputs[0].error;
        outputs_of(made, samples[0]);
        double worst = 0;
        for (size_t k = 0; k < 7; ++k) worst = std::max(worst, std::abs(sums[k] / counts[k]));
        return worst;
      };
      double with = 0, without = 0;
      CHECK(mean_shift(true, with) < 1e-4);
      CHECK(mean_shift(false, without) > 1e-2);
      CHECK(with < without / 2);
    }
}

TEST_CASE("a batch norm goes into its convolution, and old opsets are raised") {
  Graph g;
  g.input("x", DType::F32, {1, 2, 6, 6}).initialiser<float>("w", {3, 2, 3, 3}, normal(54, 41));
  g.initialiser<float>("s", {3}, {1.5f, -0.5f, 0.25f}).initialiser<float>("m", {3}, {0.1f, 0.2f, 0.3f});
  g.initialiser<float>("v", {3}, {0.9f, 2.0f, 0.04f});
  g.node("Conv", {"x", "w"}, {"c"}).node("BatchNormalization", {"c", "s", "m", "m", "v"}, {"n"});
  g.node("Dropout", {"n"}, {"d"}, {attribute("ratio", 0.5)}).node("Softmax", {"d"}, {"y"}).output("y");
  const onnx::NamedValues sample{{"x", drawn({1, 2, 6, 6}, 42)}};
  const onnx::Quantised made = onnx::quantise(load(model(g, 9)), {sample}, on_interpreter());
  CHECK(made.model.opsets().at("") == 13);
  CHECK(ops_of(made.model, "BatchNormalization").empty());
  CHECK(made.layers.at(0).format == "i8");
  CHECK(made.outputs.at(0).error < 0.05);
  const Tensor y = outputs_of(made, sample).at("y").tensor();
  CHECK(y.sum().item<float>() == doctest::Approx(1)); // over all axes from 1 on, as before opset 13
}

TEST_CASE("layers stay in f32 for a reason") {
  Graph g, body;
  body.initialiser<float>("inner", {4, 4}, normal(16, 51)).node("MatMul", {"x", "inner"}, {"o"}).output("o");
  g.input("x", DType::F32, {2, 4}).input("p", DType::F32, {4, 3}).input("which", DType::Bool, {});
  g.initialiser<float>("w", {4, 4}, normal(16, 52)).initialiser<float>("k", {2, 4}, normal(8, 53));
  std::vector<float> broken = normal(16, 54);
  broken[7] = std::numeric_limits<float>::quiet_NaN();
  g.initialiser<float>("broken", {4, 4}, broken).initialiser<float>("t", {1, 1, 2}, {1, 2});
  g.initialiser<double>("wide", {4, 4}, std::vector<double>(16, 0.5));
  g.node("MatMul", {"x", "p"}, {"data"}).output("data").node("MatMul", {"k", "w"}, {"fixed"}).output("fixed");
  g.node("MatMul", {"x", "broken"}, {"nan"})
      .output("nan")
      .node("MatMul", {"x", "w"}, {"kept"})
      .output("kept");
  g.node("MatMul", {"x", "w"}, {"taken"}).output("taken");
  g.node("Log", {"x"}, {"logs"}).node("MatMul", {"logs", "w"}, {"infinite"}).output("infinite");
  g.initialiser<int64_t>("axes", {1}, {0}).node("Unsqueeze", {"x", "axes"}, {"x3"});
  g.initialiser<int64_t>("order", {3}, {2, 4, 1});
  g.node("ConvTranspose", {"x3", "up"}, {"turned"})
      .output("turned")
      .initialiser<float>("up", {2, 1, 2}, {1, 2, 3, 4});
  g.node("Cast", {"x"}, {"x64"}, {attribute("to", 11)})
      .node("MatMul", {"x64", "wide"}, {"doubles"})
      .output("doubles", DType::F64);
  g.initialiser<int8_t>("codes", {4, 4}, std::vector<int8_t>(16, 3)).initialiser<float>("step", {}, {0.5f});
  g.node("DequantizeLinear", {"codes", "step"}, {"decoded"});
  g.node("MatMul", {"x", "decoded"}, {"again"}).output("again");
  g.initialiser<float>("row", {4}, {1, 2, 3, 4}).initialiser<int64_t>("square", {2}, {4, 4});
  g.node("Expand", {"row", "square"}, {"large"}).node("MatMul", {"x", "large"}, {"grown"}).output("grown");
  g.node("If", {"which"}, {"r"}, {attribute("then_branch", body), attribute("else_branch", body)})
      .output("r");
  const onnx::NamedValues sample{{"x", drawn({2, 4}, 55)},
                                 {"p", drawn({4, 3}, 56)},
                                 {"which", Tensor::from(std::vector<bool>{true}, {})}};
  const onnx::Quantised made =
      onnx::quantise(load(model(g)), {sample}, on_interpreter({.keep = {"MatMul_kept"}}));
  CHECK(layer(made, "MatMul_again").weights == std::vector<int64_t>{4, 4});
  const auto why = [&](const char* node) { return layer(made, node).format + ": " + layer(made, node).why; };
  CHECK(why("MatMul_data") == "f32: its weights are not constant");
  CHECK(why("MatMul_fixed") == "f32: it depends on no input");
  CHECK(why("MatMul_nan") == "f32: its weights are not finite");
  CHECK(why("MatMul_kept") == "f32: kept as asked");
  CHECK(why("MatMul_infinite") == "f32: its input is not finite, or empty, on the samples");
  CHECK(why("ConvTranspose_turned") == "f32: a ConvTranspose has no form with integers");
  CHECK(why("MatMul_doubles") == "f32: its weights are f64");
  CHECK(why("MatMul_o") == "f32: it is in a body of node 'If_r'");
  CHECK(why("MatMul_taken") == "i8: ");
  CHECK(why("MatMul_again") == "f32: its weights are integers already");
  CHECK(why("MatMul_grown") == "f32: its weights are computed from fewer numbers");
  for (const onnx::QuantisedOutput& output : made.outputs) {
    CAPTURE(output.name);
    CHECK((output.error == 0) == (output.name != "taken"));
  }
  outputs_of(made, sample);
}

TEST_CASE("the most error that a layer may have decides") {
  const QuantisedProduct p;
  const onnx::Model given = load(model(p.graph()));
  const onnx::Quantised strict = onnx::quantise(given, {p.sample()}, on_interpreter({.most_error = 1e-6}));
  CHECK(strict.layers[0].format == "f32");
  CHECK(strict.layers[0].why.find("above 1e-06") != std::string::npos);
  CHECK(strict.outputs[0].error == 0);
  CHECK(onnx::quantise(given, {p.sample()}, on_interpreter({.most_error = 0.5})).layers[0].format == "i8");
}

TEST_CASE("a percentile leaves out what lies far outside") {
  QuantisedProduct p;
  p.x[17] = 300; // all other values are below 5
  const auto error_of_rest = [&](onnx::Calibration calibration) {
    const onnx::Quantised made = onnx::quantise(
        load(model(p.graph())), {p.sample()}, on_interpreter({.calibration = calibration, .percentile = 98}));
    const std::vector<float> got = outputs_of(made, p.sample()).at("y").tensor().to_vector<float>();
    const std::vector<double> plain = p.expected({p.x.begin(), p.x.end()}, {p.w.begin(), p.w.end()});
    double worst = 0;
    for (size_t k = p.kColumns; k < got.size(); ++k)
      worst = std::max(worst, std::abs(got[k] - plain[k])); // rows without it
    return worst;
  };
  CHECK(error_of_rest(onnx::Calibration::Percentile) < error_of_rest(onnx::Calibration::Range) / 4);
}

TEST_CASE("observers see both outputs of every sample") {
  const QuantisedProduct p;
  std::vector<size_t> seen;
  onnx::QuantiseOptions options = on_interpreter();
  options.observe = [&](size_t sample, const onnx::NamedValues& before, const onnx::NamedValues& after) {
    seen.push_back(sample);
    CHECK(onnx::compare(before.at("y"), after.at("y"), 0.0).why != "");
  };
  const onnx::Quantised made = onnx::quantise(load(model(p.graph())), {p.sample(), p.sample()}, options);
  CHECK(seen == std::vector<size_t>{0, 1});
}

TEST_CASE("bad options say what was expected") {
  const QuantisedProduct p;
  const onnx::Model given = load(model(p.graph()));
  const auto error = [&](onnx::QuantiseOptions options, const std::vector<onnx::NamedValues>& samples) {
    try {
      const onnx::Quantised made = onnx::quantise(given, samples, on_interpreter(options));
    } catch (const Error& e) {
      return std::string(e.what());
    }
    return std::string();
  };
  const auto has = [](const std::string& text, const char* part) {
    return text.find(part) != std::string::npos;
  };
  CHECK(has(error({}, {}), "no samples"));
  CHECK(has(error({.weights_only = 5}, {}), "weights of 5 bits, expected 8 or 4"));
  CHECK(has(error({.percentile = 0}, {p.sample()}), "percentile 0"));
  CHECK(has(error({.block = -1}, {p.sample()}), "blocks of -1"));
  CHECK(has(error({.keep = {"nobody"}}, {p.sample()}), "node 'nobody'"));
  CHECK(has(error({.most_error = std::nan("")}, {p.sample()}), "most error nan"));
  CHECK(has(error({}, {{{"z", drawn({2, 37}, 1)}}}), "input 'x' is missing"));
}
