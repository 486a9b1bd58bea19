// Ops of ONNX where the ONNX project's own test data has holes: forms and attributes that no test there uses.
#include <doctest/doctest.h>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>

#include "support/onnx_node.hpp"

using namespace lathe;
using namespace lathe::test;
using onnx::Value;

namespace {

using Floats = std::vector<float>;
using Integers = std::vector<int64_t>;

Tensor integer(int64_t value) { return Tensor::full({}, value); }
Attribute numbers_attribute(const std::string& name, const std::vector<float>& values) {
  Attribute proto = attribute_of_type(name, Attribute::FLOATS);
  for (float value : values) proto.add_floats(value);
  return proto;
}
Attribute texts(const std::string& name, const Names& values) {
  Attribute proto = attribute_of_type(name, Attribute::STRINGS);
  for (const std::string& value : values) proto.add_strings(value);
  return proto;
}

void check_floats(const Floats& got, const std::vector<double>& expected, double tolerance = 1e-5) {
  REQUIRE(got.size() == expected.size());
  for (size_t k = 0; k < got.size(); ++k) {
    CAPTURE(k);
    CHECK(std::abs(got[k] - expected[k]) <= tolerance * (1 + std::abs(expected[k])));
  }
}

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

/// A recurrent layer of small sizes with random parameters, and each step worked out by hand.
struct Recurrent {
  int64_t steps = 4, batch = 3, features = 2, hidden = 3, gates, directions;
  std::vector<float> x, w, r, b, h0, c0, p;
  std::vector<int32_t> lengths{4, 1, 3};

  Recurrent(int64_t gates, int64_t directions) : gates(gates), directions(directions) {
    uint64_t seed = 1;
    const auto draw = [&](std::vector<float>& values, int64_t count) {
      values = (Tensor::rand({count}, seed++) * 2 - 1).to_vector<float>();
    };
    draw(x, steps * batch * features);
    draw(w, directions * gates * hidden * features);
    draw(r, directions * gates * hidden * hidden);
    draw(b, directions * 2 * gates * hidden);
    draw(h0, directions * batch * hidden);
    draw(c0, directions * batch * hidden);
    draw(p, directions * 3 * hidden);
  }
  std::vector<Value> inputs(bool with_cell) const {
    std::vector<Value> in{Tensor::from(x, {steps, batch, features}),
                          Tensor::from(w, {directions, gates * hidden, features}),
                          Tensor::from(r, {directions, gates * hidden, hidden}),
                          Tensor::from(b, {directions, 2 * gates * hidden}),
                          Tensor::from(lengths),
                          Tensor::from(h0, {directions, batch, hidden})};
    if (with_cell) {
      in.emplace_back(Tensor::from(c0, {directions, batch, hidden}));
      in.emplace_back(Tensor::from(p, {directions, 3 * hidden}));
    }
    return in;
  }

  using State = std::vector<double>;
  /// Row `row` of a gate: what the input adds, with its bias.
  double from_input(int64_t d, int64_t row, int64_t t, int64_t n) const {
    double sum = b[d * 2 * gates * hidden + row];
    for (int64_t f = 0; f < features; ++f)
      sum += w[(d * gates * hidden + row) * features + f] * x[(t * batch + n) * features + f];
    return sum;
  }
  double from_state(int64_t d, int64_t row, const State& h) const {
    double sum = b[(d * 2 + 1) * gates * hidden + row];
    for (int64_t k = 0; k < hidden; ++k) sum += r[(d * gates * hidden + row) * hidden + k] * h[k];
    return sum;
  }

  struct Result {
    std::vector<double> y, last_h, last_c;
  };
  /// `cell(direction, step, n, h, c)` makes the next h and c of one sequence.
  template <class CellFunction> Result run(const std::vector<bool>& backward, CellFunction cell) const {
    Result out{std::vector<double>(steps * directions * batch * hidden), {}, {}};
    for (int64_t d = 0; d < directions; ++d)
      for (int64_t n = 0; n < batch; ++n) {
        const auto start = (d * batch + n) * hidden;
        State h(h0.begin() + start, h0.begin() + start + hidden);
        State c(c0.begin() + start, c0.begin() + start + hidden);
        for (int64_t i = 0; i < lengths[n]; ++i) {
          const int64_t t = backward[d] ? lengths[n] - 1 - i : i;
          cell(d, t, n, h, c);
          for (int64_t k = 0; k < hidden; ++k) out.y[((t * directions + d) * batch + n) * hidden + k] = h[k];
        }
        out.last_h.insert(out.last_h.end(), h.begin(), h.end());
        out.last_c.insert(out.last_c.end(), c.begin(), c.end());
      }
    return out;
  }
};

} // namespace

TEST_CASE("LSTM both ways, with peepholes, lengths, initial states and clipping") {
  const Recurrent layer(4, 2);
  const double limit = 0.75;
  for (const bool coupled : {false, true}) {
    const auto clip = [&](double v) { return std::clamp(v, -limit, limit); };
    const auto expected = layer.run({false, true}, [&](int64_t d, int64_t t, int64_t n, auto& h, auto& c) {
      const auto old_h = h, old_c = c;
      for (int64_t k = 0; k < layer.hidden; ++k) {
        const auto gate = [&](int64_t g) {
          const int64_t row = g * layer.hidden + k;
          return layer.from_input(d, row, t, n) + layer.from_state(d, row, old_h);
        };
        const auto peephole = [&](int64_t g) { return layer.p[(d * 3 + g) * layer.hidden + k]; };
        const double input = sigmoid(clip(gate(0) + peephole(0) * old_c[k]));
        const double forget = coupled ? 1 - input : sigmoid(clip(gate(2) + peephole(2) * old_c[k]));
        c[k] = forget * old_c[k] + input * std::tanh(clip(gate(3)));
        h[k] = sigmoid(clip(gate(1) + peephole(1) * c[k])) * std::tanh(c[k]);
      }
    });
    const auto got = run_node("LSTM", layer.inputs(true),
                              {attribute("hidden_size", 3), attribute("direction", "bidirectional"),
                               attribute("clip", limit), attribute("input_forget", coupled ? 1 : 0)},
                              3);
    check_floats(floats(got[0]), expected.y);
    check_floats(floats(got[1]), expected.last_h);
    check_floats(floats(got[2]), expected.last_c);
  }
}

TEST_CASE("GRU backwards, its reset before and after the product") {
  const Recurrent layer(3, 1);
  for (const bool after : {false, true}) {
    const auto expected = layer.run({true}, [&](int64_t d, int64_t t, int64_t n, auto& h, auto&) {
      const int64_t size = layer.hidden;
      const auto old = h;
      auto reset = h, scaled = h;
      for (int64_t k = 0; k < size; ++k) {
        reset[k] = sigmoid(layer.from_input(d, size + k, t, n) + layer.from_state(d, size + k, old));
        scaled[k] = reset[k] * old[k];
      }
      for (int64_t k = 0; k < size; ++k) {
        const double update = sigmoid(layer.from_input(d, k, t, n) + layer.from_state(d, k, old));
        const int64_t row = 2 * size + k;
        const double recurred =
            after ? reset[k] * layer.from_state(d, row, old) : layer.from_state(d, row, scaled);
        h[k] = (1 - update) * std::tanh(layer.from_input(d, row, t, n) + recurred) + update * old[k];
      }
    });
    const auto got = run_node("GRU", layer.inputs(false),
                              {attribute("hidden_size", 3), attribute("direction", "reverse"),
                               attribute("linear_before_reset", after ? 1 : 0)},
                              2);
    check_floats(floats(got[0]), expected.y);
    check_floats(floats(got[1]), expected.last_h);
  }
}

TEST_CASE("RNN with a function of its own for each direction") {
  const Recurrent layer(1, 2);
  const auto expected = layer.run({false, true}, [&](int64_t d, int64_t t, int64_t n, auto& h, auto&) {
    const auto old = h;
    for (int64_t k = 0; k < layer.hidden; ++k) {
      const double sum = layer.from_input(d, k, t, n) + layer.from_state(d, k, old);
      h[k] = d == 0 ? (sum < 0 ? 0.125 * sum : sum) : 0.5 * sum + 0.25;
    }
  });
  const auto got = run_node("RNN", layer.inputs(false),
                            {attribute("hidden_size", 3), attribute("direction", "bidirectional"),
                             texts("activations", {"LeakyRelu", "Affine"}),
                             numbers_attribute("activation_alpha", {0.125, 0.5}),
                             numbers_attribute("activation_beta", {0.25})},
                            2);
  check_floats(floats(got[0]), expected.y);
  check_floats(floats(got[1]), expected.last_h);
}

TEST_CASE("DFT: complex, padded, cut, one-sided, and back") {
  const Floats re{1, -2, 3, 0.5, 4, -1}, im{0, 1, -1, 2, 0.25, 3};
  const auto transform = [&](int64_t length, double sign, int64_t bins) {
    std::vector<double> out;
    for (int64_t bin = 0; bin < bins; ++bin) {
      double a = 0, b = 0;
      for (int64_t k = 0; k < std::min<int64_t>(length, 6); ++k) {
        const double angle =
            sign * 2 * std::numbers::pi * static_cast<double>(bin * k) / static_cast<double>(length);
        a += re[k] * std::cos(angle) - im[k] * std::sin(angle);
        b += re[k] * std::sin(angle) + im[k] * std::cos(angle);
      }
      out.insert(out.end(), {a, b});
    }
    return out;
  };
  const Tensor x = stack({Tensor::from(re), Tensor::from(im)}, 1).unsqueeze(0);
  for (const int64_t length : {4, 6, 9})
    check_floats(floats(run_node("DFT", {x, integer(length)})[0]), transform(length, -1, length));
  check_floats(floats(run_node("DFT", {x}, {attribute("onesided", 1)})[0]), transform(6, -1, 4));
  std::vector<double> inverse = transform(6, 1, 6);
  for (double& v : inverse) v /= 6;
  check_floats(floats(run_node("DFT", {x}, {attribute("inverse", 1)})[0]), inverse);
}

TEST_CASE("a long DFT, made of shorter ones, of a real signal, and back") {
  const int64_t length = 1056; // 32 times 33
  const Tensor x = Tensor::rand({2, length, 1}, 3).realise();
  const Floats points = x.to_vector<float>();
  const Tensor bins = run_node("DFT", {x})[0].tensor();
  REQUIRE(bins.shape() == Shape{2, length, 2});
  const Floats got = bins.to_vector<float>();
  for (int64_t bin : {0, 1, 32, 33, 500, 1055}) {
    double real = 0, imaginary = 0;
    for (int64_t k = 0; k < length; ++k) {
      const double angle =
          -2 * std::numbers::pi * static_cast<double>(bin * k % length) / static_cast<double>(length);
      real += points[length + k] * std::cos(angle);
      imaginary += points[length + k] * std::sin(angle);
    }
    CAPTURE(bin);
    CHECK(std::abs(got[2 * (length + bin)] - real) < 1e-3);
    CHECK(std::abs(got[2 * (length + bin) + 1] - imaginary) < 1e-3);
  }
  const Floats half = floats(run_node("DFT", {x}, {attribute("onesided", 1)})[0]);
  CHECK(half.size() == 2 * 529 * 2);
  for (size_t k = 0; k < 529 * 2; ++k) CHECK(std::abs(half[k] - got[k]) < 1e-3);
  const Floats back = floats(run_node("DFT", {bins}, {attribute("inverse", 1)})[0]);
  for (size_t k = 0; k < points.size(); ++k) CHECK(std::abs(back[2 * k] - points[k]) < 1e-5);
}

TEST_CASE("TfIdfVectorizer counts, marks and weighs") {
  const Attributes pool{attribute("min_gram_length", 1),
                        attribute("max_gram_length", 2),
                        attribute("max_skip_count", 0),
                        attribute("pool_int64s", Integers{7, 8, 7, 8, 8, 8}),
                        attribute("ngram_counts", Integers{0, 2}),
                        attribute("ngram_indexes", Integers{3, 0, 1, 4}),
                        numbers_attribute("weights", {2, 3, 5, 7})};
  const Tensor x = Tensor::from(std::vector<int32_t>{7, 8, 8, 8, 1});
  const auto run = [&](const char* mode) {
    Attributes all = pool;
    all.push_back(attribute("mode", mode));
    return floats(run_node("TfIdfVectorizer", {x}, all)[0]);
  };
  CHECK(run("TF") == Floats{3, 1, 0, 1, 2});
  CHECK(run("IDF") == Floats{3, 5, 0, 2, 7});
  CHECK(run("TFIDF") == Floats{9, 5, 0, 2, 14});
}

TEST_CASE("random tensors: dtype, moments, and the same again") {
  const Attribute shape = attribute("shape", Integers{40, 50});
  const Attributes normal{shape, attribute("mean", 3.0), attribute("scale", 2.0), attribute("dtype", 11)};
  const Value a = run_node("RandomNormal", {}, normal)[0], again = run_node("RandomNormal", {}, normal)[0];
  CHECK(a.dtype() == DType::F64);
  CHECK(floats(a) == floats(again));
  CHECK(a.tensor().mean().item<double>() == doctest::Approx(3).epsilon(0.1));
  CHECK(a.tensor().std().item<double>() == doctest::Approx(2).epsilon(0.1));
  const Attributes uniform{shape, attribute("low", -1.0), attribute("high", 5.0), attribute("seed", 7.0)};
  const Tensor u = run_node("RandomUniform", {}, uniform)[0].tensor();
  CHECK(u.min().item<double>() >= -1);
  CHECK(u.max().item<double>() <= 5);
  CHECK(u.mean().item<double>() == doctest::Approx(2).epsilon(0.1));
  const Value like =
      run_node("RandomNormalLike", {Tensor::zeros({3, 4}, DType::I32)}, {attribute("dtype", 10)})[0];
  CHECK(like.dtype() == DType::F16);
  CHECK(like.shape() == Shape{3, 4});
}

TEST_CASE("Multinomial draws classes as often as they are likely") {
  const double never = -1e30;
  const Tensor scores =
      Tensor::from({std::log(0.25), std::log(0.75), never, never, never, 0.0}).reshape({2, 3});
  const Value drawn = run_node("Multinomial", {scores.cast(DType::F32)},
                               {attribute("sample_size", 4000), attribute("dtype", 7)})[0];
  CHECK(drawn.dtype() == DType::I64);
  CHECK(drawn.shape() == Shape{2, 4000});
  const Integers classes = integers(drawn);
  const auto ones = std::accumulate(classes.begin(), classes.begin() + 4000, int64_t{0});
  CHECK(std::abs(static_cast<double>(ones) - 3000) < 150);
  CHECK(std::all_of(classes.begin() + 4000, classes.end(), [](int64_t c) { return c == 2; }));
}

TEST_CASE("Bernoulli is 1 as often as its input says") {
  const Tensor drawn =
      run_node("Bernoulli", {Tensor::full({4000}, 0.25f)}, {attribute("dtype", 9)})[0].tensor();
  CHECK(drawn.dtype() == DType::Bool);
  CHECK(std::abs(drawn.sum().item<double>() - 1000) < 120);
}

TEST_CASE("Constant in every form") {
  CHECK(integers(run_node("Constant", {}, {attribute("value_int", -3)})[0]) == Integers{-3});
  CHECK(integers(run_node("Constant", {}, {attribute("value_ints", Integers{4, 5})})[0]) == Integers{4, 5});
  CHECK(floats(run_node("Constant", {}, {attribute("value_float", 0.5)})[0]) == Floats{0.5});
  const Value many = run_node("Constant", {}, {numbers_attribute("value_floats", {1, 2.5})})[0];
  CHECK(many.dtype() == DType::F32);
  CHECK(floats(many) == Floats{1, 2.5});
  CHECK(run_node("Constant", {}, {attribute("value_string", "text")})[0].texts() == Names{"text"});
  CHECK(run_node("Constant", {}, {texts("value_strings", {"a", "b"})})[0].texts() == Names{"a", "b"});
}

TEST_CASE("Range of integers and of floats, and of nothing") {
  CHECK(integers(run_node("Range", {integer(7), integer(-1), integer(-3)})[0]) == Integers{7, 4, 1});
  const auto number = [](float value) { return Tensor::full({}, value); };
  CHECK(floats(run_node("Range", {number(1), number(2.25), number(0.5)})[0]) == Floats{1, 1.5, 2});
  const Value none = run_node("Range", {integer(3), integer(3), integer(1)})[0];
  CHECK(none.is_empty());
  CHECK(none.shape() == Shape{0});
}

TEST_CASE("pieces of a sequence: sizes, a last smaller one, and one of nothing") {
  const Tensor x = Tensor::arange(7);
  const auto pieces = [&](const std::vector<Value>& inputs) {
    std::vector<size_t> sizes;
    const Value sequence = run_node("SplitToSequence", inputs)[0];
    for (const Value& piece : sequence.elements())
      sizes.push_back(static_cast<size_t>(piece.shape()[0].value()));
    return sizes;
  };
  CHECK(pieces({x, integer(3)}) == std::vector<size_t>{3, 3, 1});
  CHECK(pieces({x, Tensor::from(Integers{5, 0, 2})}) == std::vector<size_t>{5, 0, 2});
  CHECK_THROWS_AS(pieces({x, Tensor::from(Integers{5, 1})}), Error);
  const Value list = Value::sequence(DType::I64, {x, Tensor::arange(2), Tensor::arange(3)});
  CHECK(run_node("SequenceErase", {list})[0].elements().size() == 2);
  const Value second = run_node("SequenceErase", {list, integer(-3)})[0];
  CHECK(second.elements()[0].shape() == Shape{2});
  CHECK_THROWS_AS(run_node("SequenceAt", {list, integer(3)}), Error);
}

TEST_CASE("axes that a value has not are errors that name the op") {
  const Tensor x = Tensor::zeros({2, 1, 3}), weights = Tensor::zeros({1, 4, 3});
  CHECK_THROWS_WITH_AS(
      run_node("RNN", {x, weights, Tensor::zeros({1, 4})}, {attribute("hidden_size", int64_t{4})}),
      doctest::Contains("RNN"), Error);
  const Value list = Value::sequence(DType::I64, {Tensor::arange(2), Tensor::arange(3)});
  CHECK_THROWS_WITH_AS(run_node("ConcatFromSequence", {list}, {attribute("axis", int64_t{3})}),
                       doctest::Contains("ConcatFromSequence"), Error);
}
