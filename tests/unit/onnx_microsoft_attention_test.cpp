// Attention of domain com.microsoft, against plain loops.
#include <doctest/doctest.h>

#include <algorithm>

#include "support/onnx_microsoft.hpp"

using namespace lathe;
using namespace lathe::test;
using onnx::Value;

namespace {

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

TEST_CASE("MultiHeadAttention: masks of three forms, a past, packed inputs") {
  static constexpr int64_t B = 2, N = 2, S = 3, H = 4, P = 2;
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

TEST_CASE("QAttention is Attention of what its integers stand for") {
  constexpr int64_t B = 2, S = 3, N = 2, H = 4, kWidth = 5, kAll = 3 * N * H;
  const std::vector<int64_t> x = scattered(B * S * kWidth, 120, 136), w = scattered(kWidth * kAll, -8, 8, 2);
  Floats real_x, real_w, scales;
  for (const int64_t v : x) real_x.push_back(static_cast<float>(v - 128) * 0.25f);
  for (int64_t k = 0; k < kAll; ++k) scales.push_back(k % 2 ? 0.5f : 0.125f);
  for (size_t k = 0; k < w.size(); ++k) real_w.push_back(static_cast<float>(w[k] - 3) * scales[k % kAll]);
  const Tensor bias = Tensor::from(quarters(kAll, 3)), keys = tensor_of<int32_t>({4, 3, 1, 0}, {2 * B});
  const Tensor past = Tensor::from(quarters(2 * B * N * H, 4), {2, B, N, 1, H});
  const Attributes attributes{attribute("num_heads", N), attribute("unidirectional", 1)};
  const auto y = run_microsoft("QAttention",
                               {tensor_of<uint8_t>(x, {B, S, kWidth}), tensor_of<int8_t>(w, {kWidth, kAll}),
                                bias, Tensor::scalar(0.25f), Tensor::from(scales), keys,
                                Tensor::scalar(uint8_t{128}), Tensor::scalar(int8_t{3}), past},
                               attributes, 2);
  const auto wanted = run_microsoft(
      "Attention",
      {Tensor::from(real_x, {B, S, kWidth}), Tensor::from(real_w, {kWidth, kAll}), bias, keys, past},
      attributes, 2);
  for (size_t k = 0; k < 2; ++k) {
    const Floats expected = floats(wanted[k]);
    check_close(y[k], Doubles(expected.begin(), expected.end()));
  }
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

TEST_CASE("GroupQueryAttention of sizes that have names: a prompt, then steps with what it left") {
  constexpr int64_t M = 2, N = 4, H = 4;
  Graph graph;
  const auto port = [&](const char* name, int64_t heads, const char* length) {
    graph.input(name, DType::F32, {1, length, heads * H});
  };
  port("q", N, "s"), port("k", M, "s"), port("v", M, "s");
  for (const char* name : {"pk", "pv"}) graph.input(name, DType::F32, {1, M, "p", H});
  graph.input("ends", DType::I32, {1}).input("total", DType::I32, {1});
  graph.node("GroupQueryAttention", {"q", "k", "v", "pk", "pv", "ends", "total"}, {"y", "ok", "ov"},
             {attribute("num_heads", N), attribute("kv_num_heads", M)}, "com.microsoft");
  graph.output("y").output("ok").output("ov");
  const onnx::Program program = load(model(graph, 17, {}, {"com.microsoft"})).compile();
  for (const auto& [past, fresh] : std::vector<std::pair<int64_t, int64_t>>{{1, 3}, {4, 1}, {5, 1}}) {
    CAPTURE(past);
    const int64_t total = past + fresh;
    const Floats q = quarters(N * fresh * H, 1), k = quarters(M * total * H, 2),
                 v = quarters(M * total * H, 3);
    const Tensor keys = Tensor::from(k, {1, M, total, H}), values = Tensor::from(v, {1, M, total, H});
    const auto later = [&](const Tensor& x) {
      return x.index({Slice{}, Slice{}, Slice{past, {}}}).permute({0, 2, 1, 3}).reshape({1, fresh, M * H});
    };
    const auto earlier = [&](const Tensor& x) { return x.index({Slice{}, Slice{}, Slice{0, past}}); };
    const auto results = program({{"q", merged(q, 1, N, fresh, H)},
                                  {"k", later(keys)},
                                  {"v", later(values)},
                                  {"pk", earlier(keys)},
                                  {"pv", earlier(values)},
                                  {"ends", tensor_of<int32_t>({total - 1}, {1})},
                                  {"total", tensor_of<int32_t>({total}, {1})}});
    const int64_t before = past; // a structured binding is not captured
    const Loops loops{
        1,     N, M,   fresh,
        total, H, 0.5, [=](int64_t, int64_t, int64_t s, int64_t t) { return t > before + s ? -1e30 : 0.0; }};
    check_close(results.at("y"), loops(q, k, v));
    CHECK(floats(results.at("ok")) == k);
    CHECK(floats(results.at("ov")) == v);
  }
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
