// Fused products, normalisations, attention and arrays of domain com.microsoft, against plain loops.
#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>

#include "support/onnx_microsoft.hpp"

using namespace lathe;
using namespace lathe::test;
using onnx::Value;

namespace {

using Floats = std::vector<float>;
using Doubles = std::vector<double>;

const bool interpreted = (set_default_device("interp"), true);

void check_close(const Value& got, const Doubles& expected, double tolerance = 1e-5) {
  const Floats y = floats(got);
  REQUIRE(y.size() == expected.size());
  for (size_t k = 0; k < y.size(); ++k) {
    CAPTURE(k);
    CHECK(std::abs(y[k] - expected[k]) <= tolerance * (1 + std::abs(expected[k])));
  }
}

bool refuses(const std::string& op, const std::vector<Value>& inputs, const Attributes& attributes,
             size_t outputs, const std::string& what) {
  try {
    run_microsoft(op, inputs, attributes, outputs);
  } catch (const Error& error) {
    return std::string(error.what()).find(what) != std::string::npos;
  }
  return false;
}

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

/// Attention by loops: q [B, N, S, H], k and v [B, M, T, H]; `added` gives what each score gets beside its
/// product, and no key where it is below -1e20.
struct Loops {
  int64_t batch, heads, shared, queries, keys, size;
  double scale;
  std::function<double(int64_t b, int64_t n, int64_t s, int64_t t)> added;
  double sink = -1e30; // one more score

  /// [B, S, N * H]
  Doubles operator()(const Floats& q, const Floats& k, const Floats& v) const {
    Doubles y(static_cast<size_t>(batch * queries * heads * size), 0);
    for (int64_t b = 0; b < batch; ++b)
      for (int64_t n = 0; n < heads; ++n)
        for (int64_t s = 0; s < queries; ++s) {
          const int64_t group = n / (heads / shared);
          Doubles weights;
          double total = std::exp(sink);
          for (int64_t t = 0; t < keys; ++t) {
            double score = 0;
            for (int64_t h = 0; h < size; ++h)
              score += q[static_cast<size_t>(((b * heads + n) * queries + s) * size + h)] *
                       k[static_cast<size_t>(((b * shared + group) * keys + t) * size + h)];
            weights.push_back(std::exp(score * scale + added(b, n, s, t)));
            total += weights.back();
          }
          for (int64_t t = 0; t < keys; ++t)
            for (int64_t h = 0; h < size; ++h)
              y[static_cast<size_t>(((b * queries + s) * heads + n) * size + h)] +=
                  weights[static_cast<size_t>(t)] / total *
                  v[static_cast<size_t>(((b * shared + group) * keys + t) * size + h)];
        }
    return y;
  }
};

/// [B, N, S, H] as [B, S, N * H].
Tensor merged(const Floats& heads, int64_t b, int64_t n, int64_t s, int64_t h) {
  return Tensor::from(heads, {b, n, s, h}).permute({0, 2, 1, 3}).reshape({b, s, n * h});
}
Floats row_major(const Tensor& x) { return x.contiguous().to_vector<float>(); }

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

TEST_CASE("MultiHeadAttention: masks of three forms, a past, packed inputs") {
  constexpr int64_t B = 2, N = 2, S = 3, H = 4, P = 2;
  const Floats q = quarters(B * N * S * H), k = quarters(B * N * (P + S) * H, 2),
               v = quarters(B * N * (P + S) * H, 3), bias = quarters(B * N * S * (P + S), 4);
  const Attribute heads = attribute("num_heads", N), scale = attribute("scale", 0.75),
                  filter = attribute("mask_filter_value", -50.0);
  const Tensor keys = Tensor::from(k, {B, N, P + S, H}), values = Tensor::from(v, {B, N, P + S, H});
  const auto later = [](const Tensor& x) { return x.index({Slice{}, Slice{}, Slice{P, {}}}); };
  const auto earlier = [](const Tensor& x) { return x.index({Slice{}, Slice{}, Slice{0, P}}); };
  const auto flat = [](const Tensor& x) { return x.permute({0, 2, 1, 3}).reshape({B, -1, N * H}); };
  const Loops loops{B, N, N, S, P + S, H, 0.75, [&](int64_t b, int64_t n, int64_t s, int64_t t) {
                      const double own = bias[static_cast<size_t>(((b * N + n) * S + s) * (P + S) + t)];
                      return own + (t > P + s ? -50.0 : 0) + (t >= (b == 0 ? 3 : 5) ? -50.0 : 0);
                    }};
  const std::vector<Value> y = run_microsoft(
      "MultiHeadAttention",
      {merged(q, B, N, S, H), flat(later(keys)), flat(later(values)), Value(),
       tensor_of<int32_t>({3, 5}, {2}), Tensor::from(bias, {B, N, S, P + S}), earlier(keys), earlier(values)},
      {heads, scale, filter, attribute("unidirectional", 1)}, 3);
  check_close(y[0], loops(q, k, v));
  CHECK(floats(y[1]) == k);
  CHECK(floats(y[2]) == v);

  // Keys that a mask of [B, T] or [B, S, T] leaves out.
  const std::vector<int64_t> pairs = scattered(B * S * S, 0, 1, 5);
  const Floats near_k = row_major(later(keys)), near_v = row_major(later(values));
  for (const bool by_query : {false, true}) {
    const Loops masked{B, N, N, S, S, H, 0.75, [&](int64_t b, int64_t, int64_t s, int64_t t) {
                         return pairs[static_cast<size_t>(by_query ? (b * S + s) * S + t : b * S + t)]
                                    ? 0.0
                                    : -50.0;
                       }};
    const std::vector<int64_t> some(pairs.begin(), pairs.begin() + (by_query ? B * S * S : B * S));
    const Tensor mask = tensor_of<int32_t>(some, by_query ? Shape{B, S, S} : Shape{B, S});
    // Queries, keys and values side by side: [B, S, N, 3, H].
    const Tensor packed =
        stack({Tensor::from(q, {B, N, S, H}), later(keys), later(values)}, 3).permute({0, 2, 1, 3, 4});
    check_close(
        microsoft("MultiHeadAttention", {packed, Value(), Value(), Value(), mask}, {heads, scale, filter}),
        masked(q, near_k, near_v));
    const Tensor pair = stack({later(keys), later(values)}, 3).permute({0, 2, 1, 3, 4});
    check_close(microsoft("MultiHeadAttention", {merged(q, B, N, S, H), pair, Value(), Value(), mask},
                          {heads, scale, filter}),
                masked(q, near_k, near_v));
    check_close(microsoft("MultiHeadAttention",
                          {merged(q, B, N, S, H), later(keys), later(values), Value(), mask},
                          {heads, scale, filter}),
                masked(q, near_k, near_v));
  }
  CHECK(
      refuses("MultiHeadAttention", {merged(q, B, N, S, H), flat(keys), flat(values)}, {heads}, 4, "scores"));
}

TEST_CASE("Attention projects its input and keeps keys and values in one tensor") {
  constexpr int64_t B = 2, N = 2, S = 3, H = 2, P = 1, kWidth = 5;
  const Floats x = quarters(B * S * kWidth), w = quarters(kWidth * 3 * N * H, 2),
               bias = quarters(3 * N * H, 3), past = quarters(2 * B * N * P * H, 4);
  Floats q, kv[2];
  const auto projected = [&](int64_t b, int64_t s, int64_t part, int64_t n, int64_t h) {
    const int64_t column = (part * N + n) * H + h;
    double sum = bias[static_cast<size_t>(column)];
    for (int64_t f = 0; f < kWidth; ++f)
      sum +=
          x[static_cast<size_t>((b * S + s) * kWidth + f)] * w[static_cast<size_t>(f * 3 * N * H + column)];
    return static_cast<float>(sum);
  };
  for (int64_t b = 0; b < B; ++b)
    for (int64_t n = 0; n < N; ++n) {
      for (int64_t s = 0; s < S; ++s)
        for (int64_t h = 0; h < H; ++h) q.push_back(projected(b, s, 0, n, h));
      for (int64_t part = 0; part < 2; ++part)
        for (int64_t t = 0; t < P + S; ++t)
          for (int64_t h = 0; h < H; ++h)
            kv[part].push_back(t < P ? past[static_cast<size_t>((((part * B + b) * N + n) * P + t) * H + h)]
                                     : projected(b, t - P, 1 + part, n, h));
    }
  // Ends and then beginnings of the sequences.
  const Loops loops{B, N, N, S, P + S, H, 1 / std::sqrt(2.0), [&](int64_t b, int64_t, int64_t, int64_t t) {
                      return t >= (b == 0 ? 4 : 3) || t < (b == 0 ? 1 : 0) ? -10000.0 : 0.0;
                    }};
  const std::vector<Value> y = run_microsoft(
      "Attention",
      {Tensor::from(x, {B, S, kWidth}), Tensor::from(w, {kWidth, 3 * N * H}), Tensor::from(bias),
       tensor_of<int32_t>({4, 3, 1, 0}, {4}), Tensor::from(past, {2, B, N, P, H})},
      {attribute("num_heads", N)}, 2);
  check_close(y[0], loops(q, kv[0], kv[1]));
  Doubles present(kv[0].begin(), kv[0].end());
  present.insert(present.end(), kv[1].begin(), kv[1].end());
  check_close(y[1], present);
}

TEST_CASE("GroupQueryAttention writes into caches with room, by each sequence's length") {
  constexpr int64_t B = 2, N = 4, M = 2, H = 4, kRoom = 6;
  const std::vector<int64_t> ends{3, 4}; // where this step's key goes
  const Floats q = quarters(B * N * H), k = quarters(B * M * H, 2), v = quarters(B * M * H, 3);
  Floats old[2] = {quarters(B * M * kRoom * H, 4), quarters(B * M * kRoom * H, 5)}, now[2] = {old[0], old[1]};
  for (int64_t b = 0; b < B; ++b)
    for (int64_t m = 0; m < M; ++m)
      for (int64_t h = 0; h < H; ++h) {
        const auto to = static_cast<size_t>(((b * M + m) * kRoom + ends[static_cast<size_t>(b)]) * H + h);
        now[0][to] = k[static_cast<size_t>((b * M + m) * H + h)],
        now[1][to] = v[static_cast<size_t>((b * M + m) * H + h)];
      }
  const std::vector<Value> inputs{Tensor::from(q, {B, 1, N * H}),
                                  Tensor::from(k, {B, 1, M * H}),
                                  Tensor::from(v, {B, 1, M * H}),
                                  Tensor::from(old[0], {B, M, kRoom, H}),
                                  Tensor::from(old[1], {B, M, kRoom, H}),
                                  tensor_of<int32_t>(ends, {B}),
                                  tensor_of<int32_t>({5}, {1})};
  const Attributes attributes{attribute("num_heads", N), attribute("kv_num_heads", M),
                              attribute("local_window_size", 3), attribute("smooth_softmax", 1)};
  const Loops loops{B,
                    N,
                    M,
                    1,
                    kRoom,
                    H,
                    0.5,
                    [&](int64_t b, int64_t, int64_t, int64_t t) {
                      const int64_t end = ends[static_cast<size_t>(b)];
                      return t > end || t <= end - 3 ? -1e30 : 0.0;
                    },
                    0.0};
  const std::vector<Value> y = run_microsoft("GroupQueryAttention", inputs, attributes, 3);
  check_close(y[0], loops(q, now[0], now[1]));
  CHECK(floats(y[1]) == now[0]);
  CHECK(floats(y[2]) == now[1]);
  Attributes quantised = attributes;
  quantised.push_back(attribute("k_quant_type", "PER_TENSOR"));
  CHECK(refuses("GroupQueryAttention", inputs, quantised, 3, "k_quant_type"));
}

TEST_CASE("RotaryEmbedding turns pairs side by side or half apart, and leaves the rest") {
  constexpr int64_t S = 3, H = 6, kPairs = 2;
  const Floats x = quarters(S * H), angles{0.1f, 0.2f, 0.3f, 0.4f, 0.5f, 0.6f, 0.7f, 0.8f};
  const std::vector<int64_t> places{3, 0, 2};
  const Tensor table = Tensor::from(angles, {4, kPairs});
  for (const bool interleaved : {false, true}) {
    Doubles y(x.begin(), x.end());
    for (int64_t s = 0; s < S; ++s)
      for (int64_t p = 0; p < kPairs; ++p) {
        const auto first = static_cast<size_t>(s * H + (interleaved ? 2 * p : p)),
                   second = first + (interleaved ? 1 : kPairs);
        const double angle = angles[static_cast<size_t>(places[static_cast<size_t>(s)] * kPairs + p)];
        y[first] = x[first] * std::cos(angle) - x[second] * std::sin(angle);
        y[second] = x[first] * std::sin(angle) + x[second] * std::cos(angle);
      }
    check_close(
        microsoft("RotaryEmbedding",
                  {Tensor::from(x, {1, S, H}), tensor_of<int64_t>(places, {1, S}), table.cos(), table.sin()},
                  {attribute("interleaved", interleaved ? 1 : 0), attribute("num_heads", 1),
                   attribute("rotary_embedding_dim", 4)}),
        y);
  }
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
