// Attention, RotaryEmbedding and TensorScatter against plain loops in doubles.
#include <doctest/doctest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "support/messages.hpp"
#include "support/onnx_numbers.hpp"

using namespace lathe;
using namespace lathe::test;
using onnx::Value;

namespace {

using Floats = std::vector<float>;

constexpr double kNever = -std::numeric_limits<double>::infinity();

Tensor tensor(const Shape& shape, unsigned seed) {
  return Tensor::from(numbers(num_elements(shape).value(), seed), shape);
}

/// What a query is told of a key: a summand, -infinity for one that it does not see.
using Mask = std::function<double(int64_t b, int64_t h, int64_t t, int64_t s)>;
const Mask kAll = [](int64_t, int64_t, int64_t, int64_t) { return 0.0; };

/// Heads, tokens and features, with q, k and v in [B, heads, tokens, features].
struct Heads {
  int64_t batch, heads, key_heads, queries, keys, features, values;
  Floats q = numbers(batch * heads * queries * features, 1),
         k = numbers(batch * key_heads * keys * features, 2),
         v = numbers(batch * key_heads * keys * values, 3);

  Tensor query() const { return Tensor::from(q, {batch, heads, queries, features}); }
  Tensor key() const { return Tensor::from(k, {batch, key_heads, keys, features}); }
  Tensor value() const { return Tensor::from(v, {batch, key_heads, keys, values}); }
};

struct Expected {
  std::vector<double> y, scores, capped, masked, weights;
};

Expected attention(const Heads& c, const Mask& mask = kAll, double cap = 0, double scale = 0) {
  Expected e;
  if (scale == 0) scale = 1 / std::sqrt(static_cast<double>(c.features));
  for (int64_t b = 0; b < c.batch; ++b)
    for (int64_t h = 0; h < c.heads; ++h)
      for (int64_t t = 0; t < c.queries; ++t) {
        const int64_t key_head = b * c.key_heads + h / (c.heads / c.key_heads);
        std::vector<double> row;
        for (int64_t s = 0; s < c.keys; ++s) {
          double dot = 0;
          for (int64_t i = 0; i < c.features; ++i)
            dot += static_cast<double>(c.q[((b * c.heads + h) * c.queries + t) * c.features + i]) *
                   c.k[(key_head * c.keys + s) * c.features + i];
          e.scores.push_back(dot * scale);
          e.capped.push_back(cap > 0 ? cap * std::tanh(dot * scale / cap) : dot * scale);
          e.masked.push_back(e.capped.back() + mask(b, h, t, s));
          row.push_back(std::exp(e.masked.back()));
        }
        double sum = 0;
        for (double w : row) sum += w;
        for (double& w : row) w = sum == 0 ? 0 : w / sum;
        e.weights.insert(e.weights.end(), row.begin(), row.end());
        for (int64_t j = 0; j < c.values; ++j) {
          double y = 0;
          for (int64_t s = 0; s < c.keys; ++s) y += row[s] * c.v[(key_head * c.keys + s) * c.values + j];
          e.y.push_back(y);
        }
      }
  return e;
}

const Heads kOdd{2, 6, 3, 5, 7, 3, 2};

Floats joined(const Floats& x, int64_t batch, int64_t heads, int64_t tokens, int64_t features) {
  Floats y(x.size());
  for (int64_t b = 0; b < batch; ++b)
    for (int64_t h = 0; h < heads; ++h)
      for (int64_t t = 0; t < tokens; ++t)
        for (int64_t i = 0; i < features; ++i)
          y[((b * tokens + t) * heads + h) * features + i] = x[((b * heads + h) * tokens + t) * features + i];
  return y;
}

} // namespace

// ---- attention ----

TEST_CASE("attention of as many, fewer and one key heads") {
  for (const int64_t key_heads : {6, 3, 2, 1}) {
    const Heads c{2, 6, key_heads, 5, 7, 3, 2};
    CAPTURE(key_heads);
    const Value y = one("Attention", {c.query(), c.key(), c.value()}, {}, 23);
    CHECK(y.shape() == Shape{2, 6, 5, 2});
    check_close(y, attention(c).y);
    check_close(one("Attention", {c.query(), c.key(), c.value()}, {attribute("scale", 0.75)}, 24),
                attention(c, kAll, 0, 0.75).y);
  }
  const Heads single{1, 1, 1, 1, 1, 1, 1};
  check_close(one("Attention", {single.query(), single.key(), single.value()}, {}, 23), attention(single).y);
}

TEST_CASE("attention whose heads are joined") {
  const Heads& c = kOdd;
  const Value q = Tensor::from(joined(c.q, 2, 6, 5, 3), {2, 5, 18}),
              k = Tensor::from(joined(c.k, 2, 3, 7, 3), {2, 7, 9}),
              v = Tensor::from(joined(c.v, 2, 3, 7, 2), {2, 7, 6});
  const Attributes heads{attribute("q_num_heads", 6), attribute("kv_num_heads", 3)};
  const std::vector<Value> y = run_node("Attention", {q, k, v}, heads, 3, 23);
  CHECK(y[0].shape() == Shape{2, 5, 12});
  const std::vector<double> expected = attention(c).y;
  const Floats in_floats(expected.begin(), expected.end());
  const Floats together = joined(in_floats, 2, 6, 5, 2);
  check_close(y[0], {together.begin(), together.end()});
  CHECK(floats(y[1]) == c.k);
  CHECK(floats(y[2]) == c.v);
  mentions(message_of([&] { one("Attention", {q, k, v}, {}, 23); }), "q_num_heads");
}

TEST_CASE("masks of numbers and of bools, of any rank that broadcasts") {
  const Heads& c = kOdd;
  for (const Shape& shape : std::vector<Shape>{{5, 7}, {6, 5, 7}, {2, 1, 5, 7}, {2, 6, 5, 7}, {1, 6, 1, 7}}) {
    CAPTURE(to_string(shape));
    Shape full(4, Expr(1));
    std::copy(shape.begin(), shape.end(), full.end() - static_cast<int64_t>(shape.size()));
    const Floats values = numbers(num_elements(shape).value(), 9);
    const auto at = [&](int64_t b, int64_t h, int64_t t, int64_t s) {
      const int64_t index[] = {b, h, t, s};
      int64_t place = 0;
      for (size_t axis = 0; axis < 4; ++axis)
        place = place * full[axis].value() + (full[axis].is_const(1) ? 0 : index[axis]);
      return static_cast<double>(values[place]);
    };
    check_close(one("Attention", {c.query(), c.key(), c.value(), Tensor::from(values, shape)}, {}, 23),
                attention(c, at).y);
    const Tensor seen = Tensor::from(values, shape) > -0.2f;
    const Mask by_bool = [&](int64_t b, int64_t h, int64_t t, int64_t s) {
      return static_cast<float>(at(b, h, t, s)) > -0.2f ? 0 : kNever;
    };
    check_close(one("Attention", {c.query(), c.key(), c.value(), seen.realise()}, {}, 23),
                attention(c, by_bool).y);
  }
  mentions(message_of([&] { one("Attention", {c.query(), c.key(), c.value(), tensor({4, 7}, 1)}, {}, 23); }),
           "a mask of [1, 1, 4, 7] for scores of [2, 6, 5, 7]");
  // One query, and a mask of several: nothing grows by broadcasting.
  const Heads alone{1, 2, 2, 1, 3, 2, 2};
  mentions(message_of([&] {
             one("Attention", {alone.query(), alone.key(), alone.value(), tensor({4, 3}, 1)}, {}, 23);
           }),
           "a mask of");
}

TEST_CASE("a query that sees no key gets zeros") {
  const Heads c{1, 1, 1, 3, 2, 2, 2};
  const std::vector<bool> seen{true, false, false, false, true, true};
  const Mask mask = [&](int64_t, int64_t, int64_t t, int64_t s) { return seen[t * 2 + s] ? 0 : kNever; };
  const std::vector<Value> y =
      run_node("Attention", {c.query(), c.key(), c.value(), Tensor::from(seen, {3, 2})},
               {attribute("qk_matmul_output_mode", 3)}, 4, 23);
  const Expected e = attention(c, mask);
  check_close(y[0], e.y);
  check_close(y[3], e.weights);
  CHECK(floats(one("Attention", {c.query(), c.key(), c.value(), Tensor::from(seen, {3, 2})}, {}, 23)) ==
        floats(y[0]));
}

TEST_CASE("causal attention begins behind the past, which comes back longer") {
  const Heads c{2, 4, 2, 3, 7, 3, 2};
  const Tensor past_key = c.key().index({Slice{}, Slice{}, Slice{0, 4}}),
               new_key = c.key().index({Slice{}, Slice{}, Slice{4, 7}});
  const Tensor past_value = c.value().index({Slice{}, Slice{}, Slice{0, 4}}),
               new_value = c.value().index({Slice{}, Slice{}, Slice{4, 7}});
  const Mask after_past = [](int64_t, int64_t, int64_t t, int64_t s) { return s <= t + 4 ? 0 : kNever; };
  const std::vector<Value> y = run_node(
      "Attention",
      {c.query(), new_key.realise(), new_value.realise(), Value(), past_key.realise(), past_value.realise()},
      {attribute("is_causal", 1)}, 3, 23);
  check_close(y[0], attention(c, after_past).y);
  CHECK(floats(y[1]) == c.k);
  CHECK(floats(y[2]) == c.v);
  // Without a past the first query sees the first key alone, however many there are.
  const Mask from_first = [](int64_t, int64_t, int64_t t, int64_t s) { return s <= t ? 0 : kNever; };
  check_close(one("Attention", {c.query(), c.key(), c.value()}, {attribute("is_causal", 1)}, 23),
              attention(c, from_first).y);
  mentions(message_of([&] {
             one("Attention",
                 {c.query(), new_key.realise(), new_value.realise(), Value(), past_key.realise()}, {}, 23);
           }),
           "expected both or none");
}

TEST_CASE("a past whose length has a name") {
  const Heads c{1, 2, 1, 2, 6, 3, 3};
  Graph graph;
  graph.input("q", DType::F32, {1, 2, 2, 3})
      .input("k", DType::F32, {1, 1, 2, 3})
      .input("v", DType::F32, {1, 1, 2, 3});
  graph.input("pk", DType::F32, {1, 1, "past", 3}).input("pv", DType::F32, {1, 1, "past", 3});
  graph.node("Attention", {"q", "k", "v", "", "pk", "pv"}, {"y", "nk", "nv"}, {attribute("is_causal", 1)})
      .output("y");
  const auto part = [](const Tensor& t, int64_t from, int64_t to) {
    return Value(t.index({Slice{}, Slice{}, Slice{from, to}}).contiguous().realise());
  };
  const onnx::NamedValues y = load(model(graph, 23))
                                  .compile()({{"q", c.query()},
                                              {"k", part(c.key(), 4, 6)},
                                              {"v", part(c.value(), 4, 6)},
                                              {"pk", part(c.key(), 0, 4)},
                                              {"pv", part(c.value(), 0, 4)}});
  check_close(y.at("y"),
              attention(c, [](int64_t, int64_t, int64_t t, int64_t s) { return s <= t + 4 ? 0 : kNever; }).y);
}

TEST_CASE("since opset 24 a cache may be padded, each of a batch by its own") {
  const Heads c{2, 2, 1, 3, 7, 3, 2};
  const std::vector<int64_t> lengths{7, 4};
  const Value counts = Tensor::from(lengths);
  const Mask padded = [&](int64_t b, int64_t, int64_t, int64_t s) { return s < lengths[b] ? 0 : kNever; };
  check_close(one("Attention", {c.query(), c.key(), c.value(), Value(), Value(), Value(), counts}, {}, 24),
              attention(c, padded).y);
  // The queries are the last of what is there.
  const Mask causal = [&](int64_t b, int64_t, int64_t t, int64_t s) {
    return s < lengths[b] && s <= t + lengths[b] - 3 ? 0 : kNever;
  };
  check_close(one("Attention", {c.query(), c.key(), c.value(), Value(), Value(), Value(), counts},
                  {attribute("is_causal", 1)}, 24),
              attention(c, causal).y);
  // A mask that ends before the keys do hides the others.
  const Floats values = numbers(3 * 5, 4);
  const Mask ends = [&](int64_t b, int64_t, int64_t t, int64_t s) {
    return s < 5 && s < lengths[b] ? static_cast<double>(values[t * 5 + s]) : kNever;
  };
  check_close(one("Attention",
                  {c.query(), c.key(), c.value(), Tensor::from(values, {3, 5}), Value(), Value(), counts}, {},
                  24),
              attention(c, ends).y);
  const Value seen = (Tensor::from(values, {3, 5}) > 0.f).realise();
  const Mask ends_of_bools = [&](int64_t b, int64_t, int64_t t, int64_t s) {
    return s < 5 && s < lengths[b] && values[t * 5 + s] > 0 ? 0 : kNever;
  };
  check_close(one("Attention", {c.query(), c.key(), c.value(), seen, Value(), Value(), counts}, {}, 24),
              attention(c, ends_of_bools).y);
  mentions(message_of([&] {
             one("Attention", {c.query(), c.key(), c.value(), Value(), Value(), Value(), counts}, {}, 23);
           }),
           "expected at most 6");
}

TEST_CASE("the scores of each step: scaled, capped, masked, weights") {
  const Heads& c = kOdd;
  const Floats values = numbers(5 * 7, 6);
  const Mask mask = [&](int64_t, int64_t, int64_t t, int64_t s) {
    return static_cast<double>(values[t * 7 + s]);
  };
  const Mask causal = [&](int64_t b, int64_t h, int64_t t, int64_t s) {
    return s <= t ? mask(b, h, t, s) : kNever;
  };
  const auto run = [&](int mode, double cap, int is_causal = 0, int opset = 24) {
    return run_node("Attention", {c.query(), c.key(), c.value(), Tensor::from(values, {5, 7})},
                    {attribute("qk_matmul_output_mode", mode), attribute("softcap", cap),
                     attribute("is_causal", is_causal)},
                    4, opset);
  };
  for (const double cap : {0.0, 0.5}) {
    CAPTURE(cap);
    const Expected e = attention(c, mask, cap);
    check_close(run(0, cap)[3], e.scores);
    check_close(run(1, cap)[3], cap > 0 ? e.capped : e.masked);
    check_close(run(1, cap, 0, 25)[3], cap > 0 ? e.capped : e.scores);
    check_close(run(2, cap)[3], e.masked);
    check_close(run(3, cap)[3], e.weights);
    check_close(run(0, cap)[0], e.y);
    check_close(one("Attention", {c.query(), c.key(), c.value(), Tensor::from(values, {5, 7})},
                    {attribute("softcap", cap)}, 23),
                e.y);
    // No cap lets a masked key through.
    const Expected hidden = attention(c, causal, cap);
    check_close(run(2, cap, 1)[3], hidden.masked);
    check_close(run(2, cap, 1)[0], hidden.y);
  }
  mentions(message_of([&] { run(4, 0); }), "expected 0, 1, 2 or 3");
}

TEST_CASE("since opset 25 a window ends the view on either side") {
  const Heads c{1, 2, 2, 4, 6, 3, 2};
  for (const auto& [left, right, causal] :
       std::vector<std::tuple<int, int, int>>{{2, 1, 0}, {0, 0, 0}, {-1, 2, 0}, {1, -1, 0}, {1, 3, 1}}) {
    CAPTURE(left);
    CAPTURE(right);
    const Mask window = [l = left, r = right, cut = causal](int64_t, int64_t, int64_t t, int64_t s) {
      return (l < 0 || s >= t - l) && (r < 0 || s <= t + r) && (!cut || s <= t) ? 0 : kNever;
    };
    check_close(one("Attention", {c.query(), c.key(), c.value()},
                    {attribute("left_window_size", left), attribute("right_window_size", right),
                     attribute("is_causal", causal)},
                    25),
                attention(c, window).y);
  }
  mentions(message_of([&] {
             one("Attention", {c.query(), c.key(), c.value()}, {attribute("left_window_size", 1)}, 24);
           }),
           "'left_window_size' is not supported");
}

TEST_CASE("attention of other dtypes, and a softmax of another precision") {
  const Heads c{1, 2, 1, 3, 5, 4, 2};
  for (const auto& [dtype, tolerance] :
       std::vector<std::pair<DType, double>>{{DType::F16, 2e-3}, {DType::BF16, 2e-2}, {DType::F64, 1e-6}}) {
    const auto as = [d = dtype](const Tensor& t) { return Value(t.cast(d).realise()); };
    CAPTURE(to_string(dtype));
    const Value y = one("Attention", {as(c.query()), as(c.key()), as(c.value())}, {}, 23);
    CHECK(y.dtype() == dtype);
    check_close(y, attention(c).y, tolerance);
  }
  for (const auto& [precision, tolerance] :
       std::vector<std::pair<int, double>>{{1, 1e-5}, {10, 2e-3}, {11, 1e-5}, {16, 2e-2}}) {
    CAPTURE(precision);
    check_close(
        one("Attention", {c.query(), c.key(), c.value()}, {attribute("softmax_precision", precision)}, 23),
        attention(c).y, tolerance);
  }
}

// ---- rotary embeddings ----

namespace {

/// Of x [batch, heads, tokens, features], whose first 2 * pairs are turned; angles [batch, tokens, pairs].
std::vector<double> rotated(const Floats& x, int64_t heads, int64_t tokens, int64_t features, int64_t pairs,
                            const std::function<int64_t(int64_t b, int64_t t)>& row, const Floats& c,
                            const Floats& s, bool interleaved) {
  std::vector<double> y(x.begin(), x.end());
  for (size_t at = 0; at < x.size(); at += static_cast<size_t>(features)) {
    const auto token = static_cast<int64_t>(at) / features;
    const int64_t place = row(token / tokens / heads, token % tokens) * pairs;
    for (int64_t i = 0; i < pairs; ++i) {
      const size_t a = at + (interleaved ? 2 * i : i), b = at + (interleaved ? 2 * i + 1 : i + pairs);
      const double cosine = c[place + i], sine = s[place + i];
      y[a] = x[a] * cosine - x[b] * sine;
      y[b] = x[a] * sine + x[b] * cosine;
    }
  }
  return y;
}

} // namespace

TEST_CASE("rotary embeddings: halves or neighbours, all features or the first, by position or token") {
  constexpr int64_t kBatch = 2, kHeads = 3, kTokens = 5, kFeatures = 8, kPositions = 11;
  const Floats x = numbers(kBatch * kHeads * kTokens * kFeatures, 1);
  const std::vector<int64_t> positions{0, 3, 10, 7, 7, 1, 2, 9, 4, 5};
  for (const int64_t pairs : {4, 3, 1})
    for (const bool interleaved : {false, true}) {
      CAPTURE(pairs);
      CAPTURE(interleaved);
      const Attributes attributes{attribute("interleaved", interleaved ? 1 : 0),
                                  attribute("rotary_embedding_dim", pairs == 4 ? 0 : 2 * pairs)};
      const Floats c = numbers(kPositions * pairs, 2), s = numbers(kPositions * pairs, 3);
      const auto by_position = [&](int64_t b, int64_t t) { return positions[b * kTokens + t]; };
      const Value in = Tensor::from(x, {kBatch, kHeads, kTokens, kFeatures});
      const Value ids = Tensor::from(positions, {kBatch, kTokens});
      const std::vector<double> expected =
          rotated(x, kHeads, kTokens, kFeatures, pairs, by_position, c, s, interleaved);
      const Value cosines = Tensor::from(c, {kPositions, pairs}),
                  sines = Tensor::from(s, {kPositions, pairs});
      check_close(one("RotaryEmbedding", {in, cosines, sines, ids}, attributes, 23), expected);
      // Heads joined.
      Attributes with_heads = attributes;
      with_heads.push_back(attribute("num_heads", static_cast<int>(kHeads)));
      const Floats as_floats(expected.begin(), expected.end());
      const Floats together = joined(as_floats, kBatch, kHeads, kTokens, kFeatures);
      const Value flat =
          Tensor::from(joined(x, kBatch, kHeads, kTokens, kFeatures), {kBatch, kTokens, kHeads * kFeatures});
      check_close(one("RotaryEmbedding", {flat, cosines, sines, ids}, with_heads, 23),
                  {together.begin(), together.end()});
      // A row for each token.
      const Floats tc = numbers(kBatch * kTokens * pairs, 4), ts = numbers(kBatch * kTokens * pairs, 5);
      const auto by_token = [&](int64_t b, int64_t t) { return b * kTokens + t; };
      check_close(
          one("RotaryEmbedding",
              {in, Tensor::from(tc, {kBatch, kTokens, pairs}), Tensor::from(ts, {kBatch, kTokens, pairs})},
              attributes, 23),
          rotated(x, kHeads, kTokens, kFeatures, pairs, by_token, tc, ts, interleaved));
    }
  mentions(message_of([&] {
             one("RotaryEmbedding", {tensor({1, 1, 2, 8}, 1), tensor({1, 2, 3}, 1), tensor({1, 2, 3}, 1)}, {},
                 23);
           }),
           "for 8 features, expected half as many");
}

// ---- caches ----

TEST_CASE("a cache is written in place, from the start or from each one's own place, and round its end") {
  constexpr int64_t batch = 2, rows = 3, length = 5, fresh = 3;
  for (const int64_t inner : {1, 7})
    for (const char* mode : {"linear", "circular"})
      for (const bool from_start : {true, false}) {
        CAPTURE(mode);
        const bool circular = mode[0] == 'c';
        const std::vector<int64_t> writes =
            circular ? std::vector<int64_t>{4, 8} : std::vector<int64_t>{2, 0};
        const Floats past = numbers(batch * rows * length * inner, 1),
                     update = numbers(batch * rows * fresh * inner, 2);
        Floats expected = past;
        for (int64_t b = 0; b < batch; ++b)
          for (int64_t r = 0; r < rows; ++r)
            for (int64_t k = 0; k < fresh; ++k)
              for (int64_t i = 0; i < inner; ++i) {
                const int64_t at = ((from_start ? 0 : writes[b]) + k) % length;
                expected[((b * rows + r) * length + at) * inner + i] =
                    update[((b * rows + r) * fresh + k) * inner + i];
              }
        std::vector<Value> inputs{Tensor::from(past, {batch, rows, length, inner}),
                                  Tensor::from(update, {batch, rows, fresh, inner})};
        if (!from_start) inputs.push_back(Tensor::from(writes));
        CHECK(floats(one("TensorScatter", inputs, {attribute("mode", mode)}, 24)) == expected);
        inputs[0] = Tensor::from(past, {batch, rows, length, inner, 1});
        inputs[1] = Tensor::from(update, {batch, rows, fresh, inner, 1});
        CHECK(floats(one("TensorScatter", inputs, {attribute("mode", mode), attribute("axis", 2)}, 24)) ==
              expected);
      }
  mentions(message_of([&] { one("TensorScatter", {tensor({2, 3}, 1), tensor({1, 3}, 1)}, {}, 24); }),
           "expected an axis behind the first");
}
