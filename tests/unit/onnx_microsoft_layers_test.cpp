// Fused products, normalisations and arrays of domain com.microsoft, against plain loops.
#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>

#include "support/onnx_microsoft.hpp"

using namespace lathe;
using namespace lathe::test;
using onnx::Value;

namespace {

/// Rows of `width` numbers, normalised.
Doubles layer_norm(const Doubles& x, size_t width, const Floats& gamma, const Floats& beta, double epsilon,
                   bool centres = true) {
  Doubles y;
  for (size_t begin = 0; begin < x.size(); begin += width) {
    double mean = 0, squares = 0;
    for (size_t k = 0; k < width; ++k) mean += x[begin + k] / static_cast<double>(width);
    if (!centres) mean = 0;
    for (size_t k = 0; k < width; ++k) squares += (x[begin + k] - mean) * (x[begin + k] - mean);
    const double deviation = std::sqrt(squares / static_cast<double>(width) + epsilon);
    for (size_t k = 0; k < width; ++k)
      y.push_back((x[begin + k] - mean) / deviation * gamma[k] + (beta.empty() ? 0 : beta[k]));
  }
  return y;
}

} // namespace

TEST_CASE("FusedMatMul moves its batch and swaps its matrices, then scales") {
  const Floats a = quarters(2 * 3 * 4), b = quarters(2 * 4 * 5, 2);
  Doubles y;
  for (size_t batch = 0; batch < 2; ++batch)
    for (size_t row = 0; row < 3; ++row)
      for (size_t column = 0; column < 5; ++column) {
        double sum = 0;
        for (size_t k = 0; k < 4; ++k) sum += a[(batch * 3 + row) * 4 + k] * b[(batch * 4 + k) * 5 + column];
        y.push_back(0.5 * sum);
      }
  const Tensor left = Tensor::from(a, {2, 3, 4}), right = Tensor::from(b, {2, 4, 5});
  const Attribute alpha = attribute("alpha", 0.5);
  for (const char* op : {"FusedMatMul", "TransposeMatMul"})
    check_close(microsoft(op, {left.transpose(), right}, {alpha, attribute("transA", 1)}), y);
  // [4, 2, 3], whose first axis is moved to the last but one: [2, 4, 3].
  check_close(
      microsoft("FusedMatMul", {left.permute({2, 0, 1}), right.permute({1, 0, 2})},
                {alpha, attribute("transA", 1), attribute("transBatchA", 1), attribute("transBatchB", 1)}),
      y);
}

TEST_CASE("FusedConv adds its fourth input before the activation; FusedGemm has one, too") {
  const Floats x = quarters(1 * 2 * 5), w = quarters(3 * 2 * 2, 2), z = quarters(3 * 4, 3), bias{0.5f, -1, 0};
  Doubles sums;
  for (size_t out = 0; out < 3; ++out)
    for (size_t place = 0; place < 4; ++place) {
      double sum = bias[out] + z[out * 4 + place];
      for (size_t c = 0; c < 2; ++c)
        for (size_t k = 0; k < 2; ++k) sum += x[c * 5 + place + k] * w[(out * 2 + c) * 2 + k];
      sums.push_back(sum);
    }
  const std::vector<Value> inputs{Tensor::from(x, {1, 2, 5}), Tensor::from(w, {3, 2, 2}), Tensor::from(bias),
                                  Tensor::from(z, {1, 3, 4})};
  const auto numbers = [](const Floats& values) {
    Attribute list = attribute_of_type("activation_params", Attribute::FLOATS);
    for (float value : values) list.add_floats(value);
    return list;
  };
  const auto mapped = [&](const std::function<double(double)>& f) {
    Doubles y;
    std::transform(sums.begin(), sums.end(), std::back_inserter(y), f);
    return y;
  };
  check_close(microsoft("FusedConv", inputs), sums);
  check_close(microsoft("FusedConv", inputs, {attribute("activation", "Relu")}),
              mapped([](double s) { return std::max(s, 0.0); }));
  check_close(microsoft("FusedConv", inputs, {attribute("activation", "Clip"), numbers({-0.5, 0.75})}),
              mapped([](double s) { return std::clamp(s, -0.5, 0.75); }));
  check_close(microsoft("FusedConv", inputs, {attribute("activation", "HardSigmoid"), numbers({0.5, 0.25})}),
              mapped([](double s) { return std::clamp(0.5 * s + 0.25, 0.0, 1.0); }));
  CHECK(refuses("FusedConv", inputs, {attribute("activation", "Swishy")}, 1, "swishy"));

  const std::vector<Value> gemm{Tensor::from(Floats{1.f, -2.f}, {1, 2}),
                                Tensor::from(Floats{1.f, 2.f, 3.f, 4.f}, {2, 2}), Tensor::from({1.f})};
  check_close(microsoft("FusedGemm", gemm,
                        {attribute("activation", "LeakyRelu"), attribute("activation_alpha", 0.1),
                         attribute("beta", 2.0)}),
              {(1 - 6 + 2) * 0.1, (2 - 8 + 2) * 0.1});
}

TEST_CASE("Activations of a sum") {
  const Floats x = quarters(2 * 3 * 4), bias = quarters(4, 2), skip = quarters(2 * 3 * 4, 3);
  const Tensor input = Tensor::from(x, {2, 3, 4}), offset = Tensor::from(bias);
  const auto gelu = [](double v) { return 0.5 * v * (1 + std::erf(v / std::sqrt(2.0))); };
  Doubles exact, fast, quick, split, added;
  for (size_t k = 0; k < x.size(); ++k) {
    const double sum = x[k] + bias[k % 4];
    exact.push_back(gelu(sum));
    fast.push_back(0.5 * sum *
                   (1 + std::tanh(std::sqrt(2 / 3.14159265358979) * (sum + 0.044715 * sum * sum * sum))));
    quick.push_back(x[k] / (1 + std::exp(-1.5 * x[k])));
    added.push_back(sum + skip[k]);
    if (k % 4 < 2) split.push_back(sum * gelu(x[k + 2] + bias[k % 4 + 2]));
  }
  check_close(microsoft("BiasGelu", {input, offset}), exact);
  check_close(microsoft("FastGelu", {input, offset}, {}, "n"), fast, 1e-4);
  check_close(microsoft("QuickGelu", {input}, {attribute("alpha", 1.5)}), quick);
  check_close(microsoft("BiasSplitGelu", {input, offset}), split);
  check_close(microsoft("BiasAdd", {input, offset, Tensor::from(skip, {2, 3, 4})}), added);

  Doubles softmax(24); // of 12 numbers each, to which every image adds the same 12
  for (size_t image = 0; image < 2; ++image) {
    double total = 0;
    for (size_t k = 0; k < 12; ++k) total += std::exp(x[image * 12 + k] + skip[k]);
    for (size_t k = 0; k < 12; ++k) softmax[image * 12 + k] = std::exp(x[image * 12 + k] + skip[k]) / total;
  }
  check_close(microsoft("BiasSoftmax",
                        {input, Tensor::from(Floats(skip.begin(), skip.begin() + 12), {1, 3, 4})},
                        {attribute("axis", 1), attribute("is_inner_broadcast", 0)}),
              softmax);
}

TEST_CASE("Layers that normalise a sum put it out, too") {
  const Floats x = quarters(2 * 3 * 4), skip = quarters(3 * 4, 2), gamma = quarters(4, 3),
               beta = quarters(4, 4), bias = quarters(4, 5);
  const auto sums = [&](bool whole_skip) {
    Doubles sum;
    for (size_t k = 0; k < x.size(); ++k)
      sum.push_back(x[k] + (whole_skip ? x[23 - k] : skip[k % 12]) + bias[k % 4]);
    return sum;
  };
  const Tensor input = Tensor::from(x, {2, 3, 4}), g = Tensor::from(gamma), b = Tensor::from(beta),
               c = Tensor::from(bias);
  const std::vector<Value> layer{input, Tensor::from(skip, {3, 4}), g, b, c};
  const std::vector<Value> y =
      run_microsoft("SkipLayerNormalization", layer, {attribute("epsilon", 0.25)}, 1, "n");
  check_close(y[0], layer_norm(sums(false), 4, gamma, beta, 0.25));
  CHECK(refuses("SkipLayerNormalization", layer, {}, 4, "statistics"));
  check_close(microsoft("SkipSimplifiedLayerNormalization",
                        {input, input.reshape({-1}).flip(0).reshape({2, 3, 4}), g, c},
                        {attribute("epsilon", 0.25)}),
              layer_norm(sums(true), 4, gamma, {}, 0.25, false));
  check_close(microsoft("SimplifiedLayerNormalization", {input, g}, {attribute("epsilon", 0.25)}),
              layer_norm({x.begin(), x.end()}, 4, gamma, {}, 0.25, false));

  // The sum is the fourth output; the statistics between are left out.
  Graph graph;
  graph.input("x", DType::F32, {2, 3, 4})
      .input("s", DType::F32, {3, 4})
      .input("g", DType::F32, {4})
      .input("c", DType::F32, {4});
  graph.node("SkipLayerNormalization", {"x", "s", "g", "", "c"}, {"y", "", "", "sum"}, {}, "com.microsoft");
  graph.output("y").output("sum");
  const auto results = load(model(graph, 17, {}, {"com.microsoft"}))
                           .compile()({{"x", input}, {"s", layer[1]}, {"g", g}, {"c", c}});
  check_close(results.at("sum"), sums(false));
  check_close(results.at("y"), layer_norm(sums(false), 4, gamma, {}, 1e-12), 1e-4);
}

TEST_CASE("GroupNorm and SkipGroupNorm: channels last by default, SiLU if asked for") {
  const Floats x = quarters(2 * 3 * 1 * 4), skip = quarters(2 * 4, 2), gamma = quarters(4, 3),
               beta = quarters(4, 4);
  const auto normal = [&](bool with_skip, bool silu) {
    Doubles y(x.size());
    const auto sum = [&](size_t n, size_t place, size_t c) {
      return x[(n * 3 + place) * 4 + c] + (with_skip ? skip[n * 4 + c] : 0.0);
    };
    for (size_t n = 0; n < 2; ++n)
      for (size_t group = 0; group < 2; ++group) {
        Doubles part;
        for (size_t place = 0; place < 3; ++place)
          for (size_t c = 0; c < 2; ++c) part.push_back(sum(n, place, group * 2 + c));
        const Doubles unit = layer_norm(part, 6, Floats(6, 1.f), {}, 0.25);
        for (size_t k = 0; k < 6; ++k) {
          const size_t c = group * 2 + k % 2;
          const double value = unit[k] * gamma[c] + beta[c];
          y[(n * 3 + k / 2) * 4 + c] = silu ? value / (1 + std::exp(-value)) : value;
        }
      }
    return y;
  };
  const Tensor image = Tensor::from(x, {2, 3, 1, 4}), g = Tensor::from(gamma), b = Tensor::from(beta);
  const Attribute groups = attribute("groups", 2), epsilon = attribute("epsilon", 0.25),
                  none = attribute("activation", 0);
  check_close(microsoft("GroupNorm", {image, g, b}, {groups, epsilon, attribute("activation", 1)}),
              normal(false, true));
  const Value first = microsoft("GroupNorm", {image.permute({0, 3, 1, 2}), g, b},
                                {groups, epsilon, none, attribute("channels_last", 0)});
  check_close(first.tensor().permute({0, 2, 3, 1}), normal(false, false));
  const std::vector<Value> both =
      run_microsoft("SkipGroupNorm", {image, g, b, Tensor::from(skip, {2, 4})}, {groups, epsilon, none}, 2);
  check_close(both[0], normal(true, false));
  Doubles sums;
  for (size_t k = 0; k < x.size(); ++k) sums.push_back(x[k] + skip[k / 12 * 4 + k % 4]);
  check_close(both[1], sums);
}

TEST_CASE("EmbedLayerNormalization sums rows of three tables and counts words") {
  const Floats words = quarters(5 * 4), places = quarters(6 * 4, 2), segments = quarters(2 * 4, 3),
               gamma = quarters(4, 4), beta = quarters(4, 5);
  const std::vector<int64_t> ids{3, 0, 4, 1, 1, 2}, kinds{0, 1, 1, 0, 0, 1}, mask{1, 1, 0, 1, 0, 0};
  Doubles sum;
  for (size_t k = 0; k < 6; ++k)
    for (size_t f = 0; f < 4; ++f)
      sum.push_back(words[static_cast<size_t>(ids[k]) * 4 + f] + places[k % 3 * 4 + f] +
                    segments[static_cast<size_t>(kinds[k]) * 4 + f]);
  const std::vector<Value> y = run_microsoft(
      "EmbedLayerNormalization",
      {tensor_of<int32_t>(ids, {2, 3}), tensor_of<int32_t>(kinds, {2, 3}), Tensor::from(words, {5, 4}),
       Tensor::from(places, {6, 4}), Tensor::from(segments, {2, 4}), Tensor::from(gamma), Tensor::from(beta),
       tensor_of<int32_t>(mask, {2, 3})},
      {attribute("epsilon", 0.25)}, 3);
  check_close(y[0], layer_norm(sum, 4, gamma, beta, 0.25));
  CHECK(integers(y[1]) == std::vector<int64_t>{2, 1});
  check_close(y[2], sum);
}

TEST_CASE("QEmbedLayerNormalization is EmbedLayerNormalization of what its integers stand for") {
  const Tensor ids = tensor_of<int32_t>({3, 0, 4, 1, 1, 2}, {2, 3}),
               kinds = tensor_of<int32_t>({0, 1, 1, 0, 0, 1}, {2, 3}),
               mask = tensor_of<int32_t>({1, 1, 0, 1, 0, 0}, {2, 3});
  const std::vector<Shape> shapes{{5, 4}, {6, 4}, {2, 4}, {4}, {4}};
  std::vector<Value> quantised{ids, kinds}, real{ids, kinds}, scales, zero_points;
  for (size_t k = 0; k < shapes.size(); ++k) {
    const std::vector<int64_t> codes = scattered(num_elements(shapes[k]).value(), 90, 110, k + 1);
    const float scale = k % 2 ? 0.25f : 0.125f;
    const auto zero_point = static_cast<uint8_t>(97 + k);
    Floats values;
    for (const int64_t code : codes) values.push_back(static_cast<float>(code - zero_point) * scale);
    quantised.push_back(tensor_of<uint8_t>(codes, shapes[k]));
    real.push_back(Tensor::from(values, shapes[k]));
    scales.push_back(Tensor::scalar(scale));
    zero_points.push_back(Tensor::scalar(zero_point));
  }
  quantised.push_back(mask);
  real.push_back(mask);
  quantised.insert(quantised.end(), scales.begin(), scales.end());
  quantised.insert(quantised.end(), zero_points.begin(), zero_points.end());
  const Attributes attributes{attribute("epsilon", 0.25)};
  const auto y = run_microsoft("QEmbedLayerNormalization", quantised, attributes, 2);
  const auto wanted = run_microsoft("EmbedLayerNormalization", real, attributes, 2);
  const Floats expected = floats(wanted[0]);
  check_close(y[0], Doubles(expected.begin(), expected.end()));
  CHECK(integers(y[1]) == integers(wanted[1]));
}

TEST_CASE("Inverse, CDist, CropAndResize, NGramRepeatBlock and Unique") {
  // A row without a first pivot changes places.
  check_close(
      microsoft("Inverse", {Tensor::from(Floats{0.f, 2.f, 0.f, 4.f, 1.f, 0.f, 0.f, 0.f, 0.5f}, {1, 3, 3})}),
      {-0.125, 0.25, 0, 0.5, 0, 0, 0, 0, 2});
  check_close(
      microsoft("CDist",
                {Tensor::from(Floats{0.f, 0.f, 3.f, 1.f}, {2, 2}), Tensor::from(Floats{3.f, 4.f}, {1, 2})},
                {attribute("metric", "euclidean")}),
      {5, 3});
  // Rows 0.5 and 1.5 of the second image, and columns 0, 1 and 2, the last of which is outside.
  const Floats image{0, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6};
  check_close(
      microsoft("CropAndResize",
                {Tensor::from(image, {2, 1, 3, 2}), Tensor::from(Floats{0.25f, 0.f, 0.75f, 2.f}, {1, 4}),
                 tensor_of<int32_t>({1}, {1}), tensor_of<int32_t>({2, 3}, {2})},
                {attribute("extrapolation_value", -1.0)}),
      {2, 3, -1, 4, 5, -1});
  const Value scores = microsoft(
      "NGramRepeatBlock",
      {tensor_of<int64_t>({1, 2, 3, 1, 2}, {1, 5}), Tensor::from(Floats{0.f, 1.f, 2.f, 3.f}, {1, 4})},
      {attribute("ngram_size", 3)});
  CHECK(floats(scores) == Floats{0, 1, 2, -std::numeric_limits<float>::infinity()});
  const std::vector<Value> distinct =
      run_microsoft("Unique", {Tensor::from({2.f, 1.f, 1.f, 3.f, 4.f, 3.f})}, {}, 3);
  CHECK(floats(distinct[0]) == Floats{2, 1, 3, 4});
  CHECK(integers(distinct[1]) == std::vector<int64_t>{0, 1, 1, 2, 3, 2});
  CHECK(integers(distinct[2]) == std::vector<int64_t>{1, 2, 2, 1});
  const std::vector<Value> counted =
      run_microsoft("Range", {Tensor::from({1.f}), Tensor::from({4.f})}, {}, 1);
  CHECK(floats(counted[0]) == Floats{1, 2, 3});
  CHECK(microsoft("ExpandDims", {Tensor::from({1.f, 2.f}), tensor_of<int32_t>({-1}, {})}).tensor().shape() ==
        Shape{2, 1});
}
