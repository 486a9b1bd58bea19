// The arithmetic of quantisation: ranges, scales, integers, and opsets that are raised for it.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "lathe/detail/access.hpp"
#include "onnx/quantise/calibration.hpp"
#include "onnx/quantise/raise_opset.hpp"
#include "onnx/quantise/weights.hpp"
#include "support/normal_numbers.hpp"
#include "support/onnx_builder.hpp"

using namespace lathe;
using namespace lathe::test;

namespace {} // namespace

TEST_CASE("a range takes in 0, and what lies in it is at most half a step off") {
  struct Row {
    double low, high, scale;
    int zero_point;
  };
  for (const Row& row : {Row{-1, 3, 4 / 255.0, 64}, Row{0.5, 2, 2 / 255.0, 0}, Row{-3, -1, 3 / 255.0, 255},
                         Row{0, 0, 1, 0}, Row{-255, 255, 2, 128}}) {
    CAPTURE(row.low);
    const onnx::ActivationScale made = onnx::activation_scale(row.low, row.high);
    CHECK(made.scale == static_cast<float>(row.scale));
    CHECK(made.zero_point == row.zero_point);
    for (int k = 0; k <= 100; ++k) {
      const double value = row.low + (row.high - row.low) * k / 100;
      const double code = std::clamp(std::nearbyint(value / made.scale) + made.zero_point, 0.0, 255.0);
      // The zero point is rounded as well: an end may be another half step off.
      CHECK(std::abs((code - made.zero_point) * made.scale - value) <= made.scale * 1.0001);
    }
  }
}

TEST_CASE("percentiles are those of the sorted values, to a bin") {
  for (const float first : {0.0f, 1e-3f, 40.0f}) {
    CAPTURE(first);
    std::vector<float> values = normal(20011, 3);
    for (size_t k = 0; k < values.size(); ++k) values[k] *= 1 + 0.001f * static_cast<float>(k); // grows
    values[0] = first;
    onnx::Calibrator whole(onnx::Calibration::Percentile), parts(onnx::Calibration::Percentile);
    whole.add(values);
    for (size_t at = 0; at < values.size(); at += 1000)
      parts.add(std::span(values).subspan(at, std::min<size_t>(1000, values.size() - at)));
    std::vector<float> sorted = values;
    std::sort(sorted.begin(), sorted.end());
    const double bin = 2.0 * 2 * std::max(-sorted.front(), sorted.back()) / 8192;
    for (const double percentile : {50.0, 90.0, 99.0, 99.9, 100.0}) {
      CAPTURE(percentile);
      onnx::QuantiseOptions options{.calibration = onnx::Calibration::Percentile, .percentile = percentile};
      const auto cut = static_cast<size_t>((100 - percentile) / 200 * static_cast<double>(sorted.size()));
      const double low = sorted[cut], high = sorted[sorted.size() - 1 - cut];
      const onnx::ActivationScale made = whole.scale(options);
      CHECK(std::abs(255.0 * made.scale - (high - low)) <= 2 * bin);
      CHECK(std::abs(-made.zero_point * made.scale - low) <= bin + made.scale);
      CHECK(parts.scale(options).scale == made.scale);
      CHECK(parts.scale(options).zero_point == made.zero_point);
    }
    const onnx::ActivationScale range = whole.scale({});
    CHECK(range.scale == onnx::activation_scale(sorted.front(), sorted.back()).scale);
  }
}

TEST_CASE("what is not finite shows no range, and neither does nothing") {
  for (const float value : {std::nanf(""), std::numeric_limits<float>::infinity()}) {
    onnx::Calibrator calibrator(onnx::Calibration::Range);
    CHECK(!calibrator.is_usable());
    calibrator.add(std::vector<float>{1, -2});
    CHECK(calibrator.is_usable());
    CHECK(calibrator.low() == -2);
    CHECK(calibrator.high() == 1);
    calibrator.add(std::vector<float>{3, value});
    CHECK(!calibrator.is_usable());
  }
}

TEST_CASE("weights are quantised by channel and by block as plain loops do it") {
  const std::vector<int64_t> shape{5, 7, 3};
  std::vector<float> weights = normal(105, 5);
  for (size_t k = 0; k < weights.size(); ++k)
    if (k / 3 % 7 == 2) weights[k] = 0; // a channel of zeros
  for (const int bits : {8, 4})
    for (const onnx::ScaleGroups groups :
         {onnx::ScaleGroups{}, onnx::ScaleGroups{0}, onnx::ScaleGroups{1}, onnx::ScaleGroups{2},
          onnx::ScaleGroups{0, 2}, onnx::ScaleGroups{1, 3}, onnx::ScaleGroups{1, 7},
          onnx::ScaleGroups{2, 2}}) {
      CAPTURE(bits);
      CAPTURE(groups.axis);
      CAPTURE(groups.block);
      const auto made = onnx::integer_weights(weights, shape, groups, bits);
      REQUIRE(made);
      const double most = bits == 8 ? 127 : 7;
      double changed = 0, all = 0;
      for (int64_t a = 0; a < 5; ++a)
        for (int64_t b = 0; b < 7; ++b)
          for (int64_t c = 0; c < 3; ++c) {
            // The largest of those that share this one's scale.
            const int64_t at[3] = {a, b, c};
            double largest = 0;
            for (int64_t i = 0; i < 5; ++i)
              for (int64_t j = 0; j < 7; ++j)
                for (int64_t l = 0; l < 3; ++l) {
                  const int64_t other[3] = {i, j, l};
                  bool shares = true;
                  for (int axis = 0; axis < 3; ++axis)
                    if (groups.axis >= 0 && (axis == groups.axis || groups.block > 0)) {
                      const int64_t width = axis == groups.axis && groups.block > 0 ? groups.block : 1;
                      shares &= at[axis] / width == other[axis] / width;
                    }
                  if (shares)
                    largest = std::max<double>(largest,
                                               std::abs(weights[static_cast<size_t>((i * 7 + j) * 3 + l)]));
                }
            const float scale = largest == 0 ? 1.0f : static_cast<float>(largest / most);
            const size_t k = static_cast<size_t>((a * 7 + b) * 3 + c);
            const double code = std::nearbyint(weights[k] / static_cast<double>(scale));
            CHECK(made->values[k] == static_cast<int>(code));
            int64_t place = 0;
            if (groups.axis >= 0 && groups.block == 0) place = at[groups.axis];
            if (groups.block > 0)
              for (int axis = 0; axis < 3; ++axis)
                place = place * made->scale_shape[static_cast<size_t>(axis)] +
                        (axis == groups.axis ? at[axis] / groups.block : at[axis]);
            CHECK(made->scales[static_cast<size_t>(place)] == scale);
            changed += std::pow(code * scale - weights[k], 2), all += std::pow(weights[k], 2);
          }
      CHECK(made->error == doctest::Approx(std::sqrt(changed / all)));
    }
  weights[17] = std::numeric_limits<float>::infinity();
  CHECK(!onnx::integer_weights(weights, shape, {0}, 8));
}

TEST_CASE("integers of 4 bits lie two to a byte, the first in the low bits") {
  CHECK(onnx::packed_halves(std::vector<int8_t>{1, -1, 7, -7, 0, 3, -8}) ==
        std::string("\xF1\x97\x30\x08", 4));
  CHECK(onnx::packed_halves(std::vector<int8_t>{}).empty());
  // Read as ONNX has them, they are the same numbers again.
  const std::string bytes = onnx::packed_halves(std::vector<int8_t>{-7, 5, -1});
  const Tensor read = Tensor::from_memory(bytes.data(), 3, DType::I4, {3});
  CHECK(read.cast(DType::I8).to_vector<int8_t>() == std::vector<int8_t>{-7, 5, -1});
}

TEST_CASE("a bias is rounded to i32, half to even, where it fits") {
  const auto codes =
      onnx::integer_bias(std::vector<float>{1.5f, 2.5f, -3.0f}, std::vector<float>{1, 1, 0.5f});
  REQUIRE(codes);
  CHECK(*codes == std::vector<int32_t>{2, 2, -6});
  CHECK(!onnx::integer_bias(std::vector<float>{1.0f, 3e9f}, std::vector<float>{1, 1}));
  CHECK(!onnx::integer_bias(std::vector<float>{std::nanf("")}, std::vector<float>{1}));
}

namespace {

/// What the graph computes at its opset, and after it is raised.
void check_raised(const Graph& graph, int from, int to, const onnx::NamedValues& inputs) {
  CAPTURE(from);
  CAPTURE(to);
  const onnx::Model given = load(model(graph, from));
  auto raised = std::make_shared<onnx::Model::Impl>(*detail::impl(given));
  onnx::raise_opset(*raised, to);
  CHECK(raised->opsets.at("") == to);
  const onnx::NamedValues before = given.compile()(inputs),
                          after = detail::Access::make<onnx::Model>(raised).compile()(inputs);
  for (const auto& [name, value] : before) {
    CAPTURE(name);
    CHECK(onnx::compare(after.at(name), value, 1e-6).why == "");
  }
}

using Integers = std::vector<int64_t>;

} // namespace

TEST_CASE("ops of older opsets mean the same after the opset is raised") {
  const onnx::NamedValues inputs{{"x", Tensor::from(normal(2 * 3 * 4 * 5, 8), {2, 3, 4, 5})}};
  Graph g;
  g.input("x", DType::F32, {2, 3, 4, 5});
  g.node("Softmax", {"x"}, {"softmax"}, {attribute("axis", 2)}).output("softmax");
  g.node("LogSoftmax", {"x"}, {"log"}).output("log");
  g.node("Clip", {"x"}, {"clip"}, {attribute("min", -0.5), attribute("max", 0.25)}).output("clip");
  g.node("Clip", {"x"}, {"below"}, {attribute("max", 0.25)}).output("below");
  g.node("Pad", {"x"}, {"pad"},
         {attribute("pads", Integers{0, 1, 0, 2, 0, 0, 3, 0}), attribute("value", 1.5)});
  g.output("pad");
  g.node("Slice", {"x"}, {"slice"},
         {attribute("starts", Integers{1, -3}), attribute("ends", Integers{3, 5}),
          attribute("axes", Integers{1, 3})});
  g.output("slice");
  g.node("TopK", {"x"}, {"top", "places"}, {attribute("k", 2), attribute("axis", 3)}).output("top");
  g.node("Unsqueeze", {"x"}, {"more"}, {attribute("axes", Integers{0, 3})});
  g.node("Squeeze", {"more"}, {"fewer"}, {attribute("axes", Integers{0})}).output("fewer");
  g.node("ReduceSum", {"x"}, {"sum"}, {attribute("axes", Integers{1, 2}), attribute("keepdims", 0)})
      .output("sum");
  g.node("ReduceMean", {"x"}, {"mean"}, {attribute("axes", Integers{2}), attribute("keepdims", 0)})
      .output("mean");
  g.node("ReduceMax", {"x"}, {"max"}).output("max");
  g.node("Split", {"x"}, {"a", "b"}, {attribute("axis", 3), attribute("split", Integers{2, 3})}).output("b");
  g.node("Split", {"x"}, {"c", "d"}, {attribute("axis", 2)}).output("d");
  g.node("Dropout", {"x"}, {"drop"}, {attribute("ratio", 0.3)}).output("drop");
  for (const int to : {13, 18, 21}) check_raised(g, 9, to, inputs);
  Graph up = Graph().input("x", DType::F32, {2, 3, 4, 5});
  up.initialiser<float>("scales", {4}, {1, 1, 2, 1.5f});
  up.node("Upsample", {"x", "scales"}, {"nearest"}).output("nearest");
  up.node("Upsample", {"x", "scales"}, {"linear"}, {attribute("mode", "linear")}).output("linear");
  for (const int to : {10, 13, 21}) check_raised(up, 9, to, inputs);
}

TEST_CASE("opset 6, in which shapes are equal unless an attribute says otherwise") {
  Graph g;
  g.input("x", DType::F32, {2, 3}).initialiser<float>("b", {2, 3}, normal(6, 9));
  g.initialiser<float>("w", {3, 3}, normal(9, 10)).initialiser<float>("c", {3}, normal(3, 11));
  g.node("Add", {"x", "b"}, {"a"}).node("Mul", {"a", "b"}, {"m"}, {attribute("broadcast", 0)});
  g.node("Gemm", {"m", "w", "c"}, {"gemm"}, {attribute("broadcast", 1)});
  g.node("Dropout", {"gemm"}, {"y"}, {attribute("is_test", 1)}).output("y");
  for (const int to : {7, 13, 21}) check_raised(g, 6, to, {{"x", Tensor::from(normal(6, 12), {2, 3})}});
}

TEST_CASE("bodies are raised, too, and read what they read before") {
  Graph then, otherwise, g;
  then.node("Softmax", {"x"}, {"t"}).node("Clip", {"t"}, {"y"}, {attribute("min", 0.25)}).output("y");
  otherwise.node("Unsqueeze", {"x"}, {"o"}, {attribute("axes", Integers{0})});
  otherwise.node("Squeeze", {"o"}, {"z"}, {attribute("axes", Integers{0})}).output("z");
  g.input("x", DType::F32, {2, 3}).input("which", DType::Bool, {});
  g.node("If", {"which"}, {"r"}, {attribute("then_branch", then), attribute("else_branch", otherwise)});
  g.output("r");
  for (const bool which : {true, false})
    check_raised(
        g, 9, 13,
        {{"x", Tensor::from(normal(6, 2), {2, 3})}, {"which", Tensor::from(std::vector<bool>{which}, {})}});
}

TEST_CASE("what has no equal in the newer opset is an error that names the node") {
  Graph g;
  g.input("x", DType::F32, {1, 2, 3})
      .initialiser<float>("one", {2}, {1, 1})
      .node("BatchNormalization", {"x", "one", "one", "one", "one"}, {"y", "m", "v", "sm", "sv"})
      .output("y");
  const auto raise = [](const Graph& graph, int from) {
    onnx::Model::Impl impl = *detail::impl(load(model(graph, from)));
    onnx::raise_opset(impl, 21);
  };
  CHECK_THROWS_WITH_AS(raise(g, 9), doctest::Contains("node 'BatchNormalization_y'"), Error);
  CHECK_THROWS_WITH_AS(raise(g, 5), doctest::Contains("expected 6 or later"), Error);
  Graph sum = Graph().input("x", DType::F32, {2, 3}).initialiser<float>("b", {2}, {1, 2});
  sum.node("Add", {"x", "b"}, {"y"}, {attribute("broadcast", 1), attribute("axis", 0)}).output("y");
  CHECK_THROWS_WITH_AS(raise(sum, 6), doctest::Contains("it broadcasts by other rules"), Error);
}
