// Ops that compute numbers, whose rules changed with an opset, or that came with one. Numbers that no loop
// here computes are those of ONNX Runtime 1.32 and of ONNX's reference evaluator, which agree.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <numbers>

#include "support/messages.hpp"
#include "support/onnx_node.hpp"
#include "support/onnx_numbers.hpp"

using namespace lathe;
using namespace lathe::test;
using onnx::Value;

namespace {

using Floats = std::vector<float>;
using Integers = std::vector<int64_t>;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

} // namespace

// ---- Fourier transforms ----

namespace {

/// Of [outer, length, inner] real numbers along the middle: [outer, length, inner, 2].
Floats transformed(const Floats& x, size_t outer, size_t length, size_t inner) {
  Floats y;
  for (size_t o = 0; o < outer; ++o)
    for (size_t bin = 0; bin < length; ++bin)
      for (size_t i = 0; i < inner; ++i) {
        double real = 0, imaginary = 0;
        for (size_t t = 0; t < length; ++t) {
          const double angle =
              -2 * std::numbers::pi * static_cast<double>(bin * t) / static_cast<double>(length);
          const double value = x[(o * length + t) * inner + i];
          real += value * std::cos(angle);
          imaginary += value * std::sin(angle);
        }
        y.push_back(static_cast<float>(real));
        y.push_back(static_cast<float>(imaginary));
      }
  return y;
}

} // namespace

TEST_CASE("since opset 20 the axis of a transform is an input, the last but one by default") {
  const Tensor x = Tensor::randn({2, 3, 4, 5, 1}, 7);
  const Floats xs = floats(x);
  const Floats along_1 = transformed(xs, 2, 3, 20), along_2 = transformed(xs, 6, 4, 5),
               along_3 = transformed(xs, 24, 5, 1);
  check_close(one("DFT", {x}, {}, 17), along_1);
  check_close(one("DFT", {x}, {}, 20), along_3);
  check_close(one("DFT", {x}, {}, 24), along_3);
  check_close(one("DFT", {x}, {attribute("axis", 2)}, 19), along_2);
  for (const int64_t axis : {2, -3})
    check_close(one("DFT", {x, Value(), Tensor::scalar(axis)}, {}, 20), along_2);
  check_close(one("DFT", {x, Value(), Tensor::scalar(int64_t{1})}, {}, 20), along_1);
  // A length beside the axis; where it is the axis' own nothing changes.
  check_close(one("DFT", {x, Tensor::scalar(int64_t{4}), Tensor::scalar(int64_t{2})}, {}, 20), along_2);
  const Value cut = one("DFT", {x, Tensor::scalar(int64_t{2}), Tensor::scalar(int64_t{2})}, {}, 20);
  CHECK(cut.shape() == Shape{2, 3, 2, 5, 2});
  mentions(message_of([&] { one("DFT", {x}, {attribute("axis", 2)}, 20); }), "attribute 'axis'");
  mentions(message_of([&] { one("DFT", {x, Value(), Tensor::scalar(int64_t{4})}, {}, 20); }), "axis 4");
}

// ---- reductions ----

TEST_CASE("a reduction over no axes still squares, and takes logarithms") {
  const Tensor x = Tensor::from(Floats{1.5f, -2, 4, -0.5f}, {2, 2});
  const struct {
    const char* op;
    Floats expected;
  } cases[] = {{"ReduceSumSquare", {2.25f, 4, 16, 0.25f}}, {"ReduceL1", {1.5f, 2, 4, 0.5f}},
               {"ReduceL2", {1.5f, 2, 4, 0.5f}},           {"ReduceSum", {1.5f, -2, 4, -0.5f}},
               {"ReduceMean", {1.5f, -2, 4, -0.5f}},       {"ReduceMax", {1.5f, -2, 4, -0.5f}},
               {"ReduceMin", {1.5f, -2, 4, -0.5f}},        {"ReduceProd", {1.5f, -2, 4, -0.5f}},
               {"ReduceLogSumExp", {1.5f, -2, 4, -0.5f}}};
  for (const auto& c : cases) {
    CAPTURE(c.op);
    for (const Value& axes : {Value(), no_axes()})
      for (const int keepdims : {0, 1}) {
        const Value y =
            one(c.op, {x, axes}, {attribute("noop_with_empty_axes", 1), attribute("keepdims", keepdims)}, 18);
        CHECK(y.shape() == Shape{2, 2});
        check_close(y, c.expected, 1e-6);
      }
    // Without the flag no axes are all, and axes that are there are reduced with it.
    CHECK(one(c.op, {x, no_axes()}, {}, 18).shape() == Shape{1, 1});
    CHECK(one(c.op, {x, axes_of({-1})}, {attribute("noop_with_empty_axes", 1)}, 18).shape() == Shape{2, 1});
  }
  const Tensor positive = Tensor::from(Floats{1, std::exp(2.f)});
  check_close(one("ReduceLogSum", {positive}, {attribute("noop_with_empty_axes", 1)}, 18), {0, 2});
  const Tensor whole = Tensor::from<int32_t>({-3, 50000});
  CHECK(integers(one("ReduceL2", {whole}, {attribute("noop_with_empty_axes", 1)}, 18)) == Integers{3, 50000});
  CHECK(integers(one("ReduceSumSquare", {Tensor::from<int32_t>({-3, 5})},
                     {attribute("noop_with_empty_axes", 1)}, 18)) == Integers{9, 25});
}

TEST_CASE("a product of sizes keeps them where it reduces nothing") {
  Graph graph;
  graph.input("x", DType::F32, {2, 3}).node("Shape", {"x"}, {"s"});
  graph.node("ReduceProd", {"s"}, {"y"}, {attribute("noop_with_empty_axes", 1)}).output("y", DType::I64);
  const onnx::NamedValues results = load(model(graph, 18)).compile()({{"x", counting({2, 3})}});
  CHECK(integers(results.at("y")) == Integers{2, 3});
}

TEST_CASE("since opset 18 all reductions take their axes as an input") {
  const Tensor x = Tensor::from(Floats{1, 2, 3, 4, 5, 6}, {2, 3});
  const auto rows = [&](const char* op) {
    return floats(one(op, {x, axes_of({-1})}, {attribute("keepdims", 0)}, 18));
  };
  CHECK(rows("ReduceMax") == Floats{3, 6});
  CHECK(rows("ReduceMin") == Floats{1, 4});
  CHECK(rows("ReduceMean") == Floats{2, 5});
  CHECK(rows("ReduceProd") == Floats{6, 120});
  CHECK(rows("ReduceL1") == Floats{6, 15});
  CHECK(rows("ReduceSumSquare") == Floats{14, 77});
  check_close(one("ReduceL2", {x, axes_of({1})}, {attribute("keepdims", 0)}, 18),
              {std::sqrt(14.f), std::sqrt(77.f)});
  check_close(one("ReduceLogSum", {x, axes_of({1})}, {attribute("keepdims", 0)}, 18),
              {std::log(6.f), std::log(15.f)});
  CHECK_THROWS_AS(one("ReduceMax", {x, axes_of({0, -2})}, {}, 18), Error);
}

TEST_CASE("the largest and the smallest of nothing, and of bools") {
  const Value none = Value(Tensor::zeros({0, 2}, DType::F32)),
              no_integers = Value(Tensor::zeros({0, 2}, DType::I32));
  CHECK(floats(one("ReduceMax", {none, axes_of({0})}, {}, 20)) == Floats{-kInfinity, -kInfinity});
  CHECK(floats(one("ReduceMin", {none, axes_of({0})}, {}, 20)) == Floats{kInfinity, kInfinity});
  CHECK(integers(one("ReduceMax", {no_integers, axes_of({0})}, {}, 20)) == Integers{INT32_MIN, INT32_MIN});
  CHECK(integers(one("ReduceMin", {no_integers, axes_of({0})}, {}, 20)) == Integers{INT32_MAX, INT32_MAX});
  const Tensor flags = Tensor::from(std::vector<bool>{true, false, false, false}, {2, 2});
  CHECK(integers(one("ReduceMax", {flags, axes_of({1})}, {}, 20)) == Integers{1, 0});
  CHECK(integers(one("ReduceMin", {flags, axes_of({1})}, {}, 20)) == Integers{0, 0});
}

// ---- norms ----

TEST_CASE("a row of zeros normalised is zeros") {
  const Tensor x = Tensor::from(Floats{3, 0, 4, 0, 0, 0}, {2, 3});
  for (const DType dtype : {DType::F32, DType::F64, DType::F16, DType::BF16}) {
    CAPTURE(to_string(dtype));
    const Tensor given = x.cast(dtype);
    check_close(one("LpNormalization", {given}), {0.6f, 0, 0.8f, 0, 0, 0}, is_half(dtype) ? 4e-3 : 1e-6);
    check_close(one("LpNormalization", {given}, {attribute("p", 1)}), {3 / 7.f, 0, 4 / 7.f, 0, 0, 0},
                is_half(dtype) ? 4e-3 : 1e-6);
  }
  const Tensor columns = Tensor::from(Floats{0, -2, 0, 0}, {2, 2});
  CHECK(floats(one("LpNormalization", {columns}, {attribute("axis", 0)})) == Floats{0, -1, 0, 0});
}

TEST_CASE("norms of numbers whose squares overflow or vanish") {
  for (const float size : {1e-42f, 1e-30f, 1e-20f, 1e20f, 1e30f, 8e37f}) {
    CAPTURE(size);
    const Tensor x = Tensor::from(Floats{3 * size, -4 * size}, {1, 2});
    // 1e-42 itself has three digits.
    check_close(one("LpNormalization", {x}), {0.6f, -0.8f}, size < 1e-38f ? 1e-3 : 1e-6);
  }
  const Floats infinite = floats(one("LpNormalization", {Tensor::from(Floats{1, kInfinity}, {1, 2})}));
  CHECK(infinite[0] == 0);
  CHECK(std::isnan(infinite[1]));
}

// ---- resizing ----

TEST_CASE("since opset 18 an axis shrinks without aliasing") {
  const Tensor x = (counting({10}) * counting({10})).reshape({1, 1, 2, 5});
  const auto resized = [&](const Integers& sizes, const Integers& axes, Attributes attributes) {
    attributes.push_back(attribute("axes", axes));
    return one("Resize", {x, Value(), Value(), axes_of(sizes)}, attributes, 19);
  };
  const Attributes linear{attribute("mode", "linear"), attribute("antialias", 1)};
  check_close(resized({3}, {3}, linear), {0.375f, 4.4444442f, 13.375f, 29.125f, 49.444443f, 74.625f});
  check_close(resized({8}, {-1}, linear), {0, 0.4375f, 1.1875f, 3.0625f, 5.5625f, 8.6875f, 12.9375f, 16, 25,
                                           29.8125f, 36.8125f, 44.9375f, 53.6875f, 63.0625f, 73.5625f, 81});
  check_close(resized({3}, {3}, {attribute("mode", "cubic"), attribute("antialias", 1)}),
              {0.043373f, 3.976189f, 13.614459f, 28.079517f, 48.976189f, 75.578319f});
  mentions(message_of([&] { resized({3}, {3}, {attribute("antialias", 1)}); }),
           "antialias with mode nearest");
  mentions(message_of([&] { resized({3}, {3, 2}, linear); }), "1 sizes for 2 axes");
  mentions(message_of([&] { resized({3, 3}, {3, -1}, linear); }), "axis 3 twice");
}

TEST_CASE("since opset 18 a resize may keep the aspect ratio") {
  const Tensor x = (counting({10}) * counting({10})).reshape({1, 1, 2, 5});
  const auto resized = [&](const Integers& sizes, const Integers& axes, const char* policy) {
    return one(
        "Resize", {x, Value(), Value(), axes_of(sizes)},
        {attribute("mode", "linear"), attribute("axes", axes), attribute("keep_aspect_ratio_policy", policy)},
        19);
  };
  const Value smaller = resized({3, 6}, {2, 3}, "not_larger");
  CHECK(smaller.shape() == Shape{1, 1, 2, 6});
  check_close(smaller, {0, 0.75f, 2.75f, 6.083333f, 10.75f, 16, 18.75f, 25.125f, 33.375f, 42.958332f, 53.875f,
                        64.75f});
  const Value larger = resized({6, 3}, {3, 2}, "not_smaller");
  CHECK(larger.shape() == Shape{1, 1, 3, 8});
  check_close(larger, {0,     0.5f,  1.5f,       3.5f,       6.5f,  10.166667f, 14.833333f, 16,
                       12.5f, 15.5f, 19.833333f, 25.166667f, 31.5f, 38.5f,      46.5f,      48.5f,
                       25,    30.5f, 38.166667f, 46.833333f, 56.5f, 66.833333f, 78.166667f, 81});
  CHECK_THROWS_AS(resized({3, 6}, {2, 3}, "fit"), Error);
}

TEST_CASE("since opset 19 a resize may keep the middle where it is") {
  const Tensor x = (counting({10}) * counting({10})).reshape({1, 1, 2, 5});
  check_close(one("Resize", {x, Value(), Tensor::from(Floats{0.7f})},
                  {attribute("mode", "linear"), attribute("axes", Integers{3}),
                   attribute("coordinate_transformation_mode", "half_pixel_symmetric")},
                  19),
              {0.571429f, 4, 12, 31.285714f, 49, 71.285714f});
}

// ---- quantised numbers ----

TEST_CASE("since opset 21 a scale may be of a block") {
  const Tensor x = Tensor::from<int8_t>({1, 2, 3, 4, 5, -6, -7, 8, 9, 10}, {2, 5});
  const Tensor scale = Tensor::from(Floats{0.5f, 2, 10, 1, 0.25f, 3}, {2, 3});
  const Tensor zero = Tensor::from<int8_t>({1, 0, 0, 0, -1, 2}, {2, 3});
  const Attributes by_rows{attribute("axis", 1), attribute("block_size", 2)};
  const Floats expected{0, 0.5f, 6, 8, 50, -6, -7, 2.25f, 2.5f, 24};
  CHECK(floats(one("DequantizeLinear", {x, scale, zero}, by_rows, 21)) == expected);
  CHECK(integers(one("QuantizeLinear", {Tensor::from(expected, {2, 5}), scale, zero}, by_rows, 21)) ==
        Integers{1, 2, 3, 4, 5, -6, -7, 8, 9, 10});
  // One row is a block of one.
  const Tensor columns = Tensor::from(Floats{1, 10, 100, 2, 4}, {1, 5});
  const Attributes by_columns{attribute("axis", -2), attribute("block_size", 3)};
  CHECK(floats(one("DequantizeLinear", {x, columns}, by_columns, 23)) ==
        Floats{1, 20, 300, 8, 20, -6, -70, 800, 18, 40});
  mentions(message_of([&] { one("DequantizeLinear", {x, columns}, by_rows, 21); }), "in blocks of 2");
  mentions(message_of([&] { one("DequantizeLinear", {x, scale}, {attribute("axis", 1)}, 21); }),
           "without block_size");
}

TEST_CASE("quantised numbers have the dtype that an attribute says") {
  const Tensor x = Tensor::from(Floats{-1, 0.5f, 300}), scale = Tensor::scalar(0.5f);
  constexpr int kInt16 = 5, kFloat16 = 10, kFloat = 1;
  const Value y = one("QuantizeLinear", {x, scale}, {attribute("output_dtype", kInt16)}, 21);
  CHECK(y.dtype() == DType::I16);
  CHECK(integers(y) == Integers{-2, 1, 600});
  CHECK(integers(one("QuantizeLinear", {x, scale}, {}, 21)) == Integers{0, 1, 255});
  mentions(message_of([&] { one("QuantizeLinear", {x, scale}, {attribute("output_dtype", kFloat)}, 21); }),
           "output_dtype");
  const Value z = one("DequantizeLinear", {y, scale}, {attribute("output_dtype", kFloat16)}, 23);
  CHECK(z.dtype() == DType::F16);
  CHECK(floats(z) == Floats{-1, 0.5f, 300});
  // 65535 is beyond the halves, its product with the scale is not.
  const Tensor large = Tensor::from<uint16_t>({65535});
  CHECK(floats(one("DequantizeLinear", {large, Tensor::scalar(0.25f).cast(DType::F16)}, {}, 21)) ==
        Floats{16384});
}

TEST_CASE("since opset 27 ranges of halves are computed in f32") {
  const auto half = [](float x) { return Tensor::scalar(x).cast(DType::F16); };
  const Floats y = floats(one("Range", {half(2040), half(2060), half(2.5f)}, {}, 27));
  CHECK(y == Floats{2040, 2042, 2045, 2048, 2050, 2052, 2056, 2058}); // each rounded once
  CHECK(floats(one("Range", {half(0), half(1), half(0.5f)}, {attribute("stash_type", 1)}, 27)) ==
        Floats{0, 0.5f});
  CHECK_THROWS_AS(one("Range", {half(0), half(1), half(0.5f)}, {attribute("stash_type", 10)}, 27), Error);
}

TEST_CASE("since opset 20 the modes of GridSample have other names") {
  const Tensor image = counting({1, 1, 3, 3}),
               grid = Tensor::from(Floats{-0.3f, 0.4f, 0.1f, -0.9f}, {1, 1, 2, 2});
  const auto sampled = [&](const char* mode, int opset) {
    return floats(one("GridSample", {image, grid}, {attribute("mode", mode)}, opset));
  };
  CHECK(sampled("linear", 20) == sampled("bilinear", 16));
  CHECK(sampled("cubic", 22) == sampled("bicubic", 19));
  CHECK(floats(one("GridSample", {image, grid}, {}, 20)) == sampled("bilinear", 16));
  mentions(message_of([&] { sampled("bilinear", 20); }), "mode bilinear, expected linear, nearest or cubic");
  mentions(message_of([&] { sampled("linear", 16); }), "mode linear, expected bilinear, nearest or bicubic");
}

// ---- ops that opsets from 18 on brought ----

TEST_CASE("Mish and Swish") {
  const Floats x{-100, -20, -1.5f, -0.25f, 0, 0.25f, 1.5f, 20, 100};
  Floats mish, swish;
  for (float v : x) {
    mish.push_back(static_cast<float>(v * std::tanh(std::log1p(std::exp(static_cast<double>(v))))));
    swish.push_back(static_cast<float>(v / (1 + std::exp(-0.7 * v))));
  }
  check_close(one("Mish", {Tensor::from(x)}, {}, 18), mish);
  check_close(one("Swish", {Tensor::from(x)}, {attribute("alpha", 0.7)}, 24), swish);
  const Value half = one("Mish", {Tensor::from(x).cast(DType::F16).realise()}, {}, 22);
  CHECK(half.dtype() == DType::F16);
  check_close(half, mish, 2e-3);
}

TEST_CASE("products of all up to each place") {
  const Tensor x = Tensor::from({{2.f, 0.5f, 3.f}, {-1.f, 4.f, 5.f}});
  const auto product = [&](int exclusive, int reverse, int64_t axis) {
    return floats(one("CumProd", {x, Tensor::scalar(axis)},
                      {attribute("exclusive", exclusive), attribute("reverse", reverse)}, 26));
  };
  CHECK(product(0, 0, 1) == Floats{2, 1, 3, -1, -4, -20});
  CHECK(product(1, 0, -1) == Floats{1, 2, 1, 1, -1, -4});
  CHECK(product(0, 1, 1) == Floats{3, 1.5f, 3, -20, 20, 5});
  CHECK(product(1, 1, 1) == Floats{1.5f, 3, 1, 20, 5, 1});
  CHECK(product(0, 0, 0) == Floats{2, 0.5f, 3, -2, 2, 15});
  const Value whole = one("CumProd", {Tensor::from({3, -2, 5}), Tensor::scalar(int64_t{0})}, {}, 26);
  CHECK(whole.dtype() == DType::I32);
  CHECK(integers(whole) == Integers{3, -6, -30});
}

TEST_CASE("bits read as another dtype") {
  const auto cast = [](const Tensor& x, DType to) {
    return one("BitCast", {x}, {attribute("to", onnx_dtype(to))}, 26);
  };
  CHECK(integers(cast(Tensor::from({1.f, -2.f, 0.f}), DType::I32)) == Integers{0x3f800000, -0x40000000, 0});
  CHECK(cast(Tensor::from({0x3f800000, 0}), DType::F32).tensor().to_vector<float>() == Floats{1, 0});
  CHECK(integers(cast(Tensor::from({true, false}), DType::I8)) == Integers{1, 0});
  CHECK(integers(cast(Tensor::from<uint8_t>({0, 1}), DType::Bool)) == Integers{0, 1});
  CHECK(integers(cast(Tensor::from<uint16_t>({0x3c00, 0x8000}), DType::F16)) == Integers{1, 0});
  mentions(message_of([&] { cast(Tensor::from({1.f}), DType::F64); }), "expected dtypes of as many bits");
}

TEST_CASE("root mean squares, over the axes from one on") {
  const Floats x{1, -2, 3, 4, 0, -5, 2, 2, 2, 0, 0, 0}, scale{0.5f, 2, -1};
  for (const int axis : {0, 1, 2, -1, -2}) {
    CAPTURE(axis);
    const size_t from = static_cast<size_t>(axis < 0 ? axis + 3 : axis), counts[] = {12, 6, 3};
    Floats expected;
    for (size_t k = 0; k < x.size(); ++k) {
      const size_t count = counts[from], first = k / count * count;
      double squares = 0;
      for (size_t i = 0; i < count; ++i) squares += static_cast<double>(x[first + i]) * x[first + i];
      expected.push_back(
          static_cast<float>(x[k] / std::sqrt(squares / static_cast<double>(count) + 0.25) * scale[k % 3]));
    }
    const Attributes attributes{attribute("axis", axis), attribute("epsilon", 0.25)};
    const Tensor in = Tensor::from(x, {2, 2, 3}), by = Tensor::from(scale);
    check_close(one("RMSNormalization", {in, by}, attributes, 23), expected);
    const Value half = one("RMSNormalization", {in.cast(DType::F16).realise(), by}, attributes, 23);
    CHECK(half.dtype() == DType::F32); // the scale's
    check_close(half, expected, 2e-3);
    CHECK(one("RMSNormalization", {in.cast(DType::F64).realise(), by.cast(DType::F64).realise()}, attributes,
              23)
              .dtype() == DType::F64);
  }
}

TEST_CASE("since opset 23 the scale's dtype, or an attribute, says in which floats a quotient is taken") {
  // 2.502 is nearest to 2.5 in bf16, which is rounded to 2.
  const Tensor x = Tensor::from({2.502f, 3.f}), scale = Tensor::from({1.f}), zero = Tensor::from<int8_t>({0});
  const auto quantised = [&](const Tensor& by, const Attributes& attributes) {
    return integers(one("QuantizeLinear", {x, by, zero}, attributes, 23));
  };
  const Tensor narrow_scale = scale.cast(DType::BF16).realise();
  CHECK(quantised(scale, {}) == Integers{3, 3});
  CHECK(quantised(narrow_scale, {}) == Integers{2, 3});
  CHECK(quantised(scale, {attribute("precision", onnx_dtype(DType::BF16))}) == Integers{2, 3});
  CHECK(quantised(narrow_scale, {attribute("precision", onnx_dtype(DType::F32))}) == Integers{3, 3});
  mentions(message_of([&] { quantised(scale, {attribute("precision", onnx_dtype(DType::I32))}); }),
           "expected floats");
}
