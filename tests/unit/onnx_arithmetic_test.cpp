// Arithmetic ops of ONNX where the ONNX project's own test data has holes: forms of old opsets, tensors
// without elements, integers, and sizes that the model only names.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "support/messages.hpp"
#include "support/onnx_node.hpp"

using namespace lathe;
using namespace lathe::test;
using onnx::Value;

namespace {

using Floats = std::vector<float>;
using Integers = std::vector<int64_t>;

Tensor counting_from(const Shape& shape, float first = 0) {
  const int64_t count = num_elements(shape).value();
  Floats values;
  for (int64_t k = 0; k < count; ++k) values.push_back(first + static_cast<float>(k));
  return Tensor::from(values, shape);
}

void check_near(const Value& got, const Floats& expected, double tolerance = 1e-6) {
  const Floats values = floats(got);
  REQUIRE(values.size() == expected.size());
  for (size_t k = 0; k < values.size(); ++k) {
    CAPTURE(k);
    CHECK(values[k] == doctest::Approx(expected[k]).epsilon(tolerance));
  }
}

} // namespace

TEST_CASE("before opset 7 the second operand lies along `axis`") {
  const Value y = one("Add", {counting_from({2, 3, 2}), Tensor::from({10.f, 20.f, 30.f})},
                      {attribute("broadcast", 1), attribute("axis", 1)}, 6);
  CHECK(floats(y) == Floats{10, 11, 22, 23, 34, 35, 16, 17, 28, 29, 40, 41});
}

TEST_CASE("operands of two dtypes are an error, but for an exponent") {
  const Tensor single = Tensor::from(std::vector<float>{1, 4}), half = single.cast(DType::F16);
  for (const char* op : {"Add", "Sub", "Mul", "Div", "Max", "Sum", "Mean"}) {
    CAPTURE(op);
    mentions(message_of([&] { one(op, {single, half}); }), "f32 and f16");
    mentions(message_of([&] { one(op, {half, single.cast(DType::F64)}); }), op);
  }
  CHECK(floats(one("Pow", {single, half})) == std::vector<float>{1, 256});
}

TEST_CASE("integers are divided towards zero") {
  const Tensor a = Tensor::from<int8_t>({-7, 7, -7, 7, -6}), b = Tensor::from<int8_t>({2, -2, -2, 2, 3});
  const Value quotient = one("Div", {a, b});
  CHECK(quotient.dtype() == DType::I8);
  CHECK(integers(quotient) == Integers{-3, -3, 3, 3, -2});
  CHECK(integers(one("Mod", {a, b})) == Integers{1, -1, -1, 1, 0});
  CHECK(integers(one("Mod", {a, b}, {attribute("fmod", 1)})) == Integers{-1, 1, -1, 1, 0});
}

TEST_CASE("remainders of floats by infinity") {
  const Tensor a = Tensor::from({-7.5f, 7.5f, 5.f}), b = Tensor::from({2.f, INFINITY, -3.f});
  CHECK(floats(one("Mod", {a, b}, {attribute("fmod", 1)})) == Floats{-1.5, 7.5, 2});
}

TEST_CASE("a whole power of an integer is whole") {
  const Tensor base = Tensor::from<int32_t>({3, 5, -2, 2, 7}),
               exponent = Tensor::from({2.f, 3.f, 3.f, -1.f, 5.f});
  const Value power = one("Pow", {base, exponent});
  CHECK(power.dtype() == DType::I32);
  CHECK(integers(power) == Integers{9, 125, -8, 0, 16807});
}

TEST_CASE("a constant exponent is a few products, of whichever dtype and shape it is") {
  Floats base;
  for (int k = 0; k < 4000; ++k) base.push_back(std::sin(static_cast<float>(k)) * 30);
  const Tensor x = Tensor::from(base);
  const auto power = [&](const auto& exponent, const std::vector<int64_t>& dims) {
    Graph graph;
    graph.input("x", DType::F32, {4000}).initialiser("e", dims, exponent);
    graph.node("Neg", {"e"}, {"minus"}).node("Abs", {"minus"}, {"same"});
    graph.node("Pow", {"x", "e"}, {"y"}).node("Pow", {"x", "same"}, {"z"}).output("y").output("z");
    const onnx::NamedValues results = load(model(graph)).compile()({{"x", x}});
    CHECK(floats(results.at("y")) == floats(results.at("z")));
    return floats(results.at("y"));
  };
  // Rounded after each product, as ONNX Runtime does it; a power by logarithms is rounded once.
  const Floats cube = floats(x * x * x), square = floats(x * x);
  CHECK(power(Floats{3}, {}) == cube);
  CHECK(power(Floats{3}, {1}) == cube);
  CHECK(power(std::vector<int64_t>{3}, {1}) == cube);
  CHECK(power(std::vector<double>{2}, {1, 1}) == square);
}

TEST_CASE("clipping to crossed bounds gives the upper") {
  const Tensor x = Tensor::from({-5.f, 0.f, 5.f});
  CHECK(floats(one("Clip", {x, Tensor::scalar(2.f), Tensor::scalar(1.f)})) == Floats{1, 1, 1});
  CHECK(floats(one("Clip", {x}, {attribute("min", -1.0), attribute("max", 2.0)}, 6)) == Floats{-1, 0, 2});
}

TEST_CASE("activations of integers") {
  const Tensor x = Tensor::from<int32_t>({-3, -1, 0, 2, 5});
  CHECK(integers(one("Relu", {x})) == Integers{0, 0, 0, 2, 5});
  CHECK(integers(one("PRelu", {x, Tensor::from<int32_t>({2})})) == Integers{-6, -2, 0, 2, 5});
  CHECK(integers(one("Shrink", {x}, {attribute("lambd", 1.5), attribute("bias", 1.0)})) ==
        Integers{-2, 0, 0, 1, 4});
}

TEST_CASE("tensors without elements") {
  const Value none = Value(Tensor::zeros({0, 3}, DType::F32));
  const Value sum = one("Add", {none, Tensor::from({1.f, 2.f, 3.f})});
  CHECK(sum.is_empty());
  CHECK(sum.shape() == Shape{0, 3});
  CHECK(one("Exp", {none}).is_empty());
  CHECK(one("Greater", {none, Tensor::scalar(1.f)}).dtype() == DType::Bool);
  CHECK(one("Softmax", {none}).shape() == Shape{0, 3});
  const Value axes = Tensor::from<int64_t>({0});
  CHECK(floats(one("ReduceSum", {none, axes})) == Floats{0, 0, 0});
  CHECK(floats(one("ReduceProd", {none}, {attribute("axes", Integers{0})})) == Floats{1, 1, 1});
  CHECK(one("ReduceMax", {none}, {attribute("axes", Integers{1})}).shape() == Shape{0, 1});
  CHECK(std::isnan(floats(one("ReduceMean", {none}, {attribute("axes", Integers{0})}))[0]));
}

TEST_CASE("reductions keep integers' dtype") {
  const Tensor x = Tensor::from<int32_t>({3, 4, 6, 8}, {2, 2});
  const Value norm = one("ReduceL2", {x}, {attribute("axes", Integers{1}), attribute("keepdims", 0)});
  CHECK(norm.dtype() == DType::I32);
  CHECK(integers(norm) == Integers{5, 10});
  CHECK(one("ReduceSum", {x}).dtype() == DType::I32);
  CHECK(integers(one("ReduceMean", {x})) == Integers{5});
}

TEST_CASE("before opset 13 softmax takes all axes from `axis` on as one") {
  const Tensor x = counting_from({2, 2, 2});
  const Floats y = floats(one("Softmax", {x}, {attribute("axis", 1)}, 11));
  CHECK(y[0] + y[1] + y[2] + y[3] == doctest::Approx(1));
  CHECK(y[0] == doctest::Approx(y[4]));
  CHECK(floats(one("Hardmax", {x}, {}, 11)) == Floats{0, 0, 0, 1, 0, 0, 0, 1});
}

TEST_CASE("group normalisation scales groups, from opset 21 on channels") {
  const Tensor x = Tensor::arange(16).cast(DType::F32).reshape({2, 4, 2}); // each group: -3, -1, 1, 3
  const Attributes two{attribute("num_groups", 2), attribute("epsilon", 0.0)};
  const auto expected = [](const Floats& scale, const Floats& bias) {
    Floats out;
    for (size_t n = 0; n < 2; ++n)
      for (size_t c = 0; c < 4; ++c)
        for (size_t k = 0; k < 2; ++k) {
          const size_t at = scale.size() == 2 ? c / 2 : c;
          const auto distance = static_cast<float>(2 * (c % 2 * 2 + k)) - 3;
          out.push_back(distance / std::sqrt(5.f) * scale[at] + bias[at]);
        }
    return out;
  };
  const Floats of_groups{2, 3}, of_channels{2, 3, 5, 7}, group_bias{10, 20}, channel_bias{10, 20, 30, 40};
  for (const int opset : {18, 20})
    check_near(one("GroupNormalization", {x, Tensor::from(of_groups), Tensor::from(group_bias)}, two, opset),
               expected(of_groups, group_bias), 1e-5);
  for (const int opset : {21, 22})
    check_near(
        one("GroupNormalization", {x, Tensor::from(of_channels), Tensor::from(channel_bias)}, two, opset),
        expected(of_channels, channel_bias), 1e-5);
}

TEST_CASE("batch normalisation of old opsets") {
  const Tensor x = counting_from({2, 2, 2});
  // A parameter for every place.
  const Tensor places = counting_from({2, 2}), ones = Tensor::ones({2, 2});
  const Value y = one("BatchNormalization", {x, ones, ones, places, ones},
                      {attribute("spatial", 0), attribute("epsilon", 0.0)}, 8);
  CHECK(floats(y) == Floats{1, 1, 1, 1, 5, 5, 5, 5});
  // Asked for the batch's statistics.
  const Tensor zero = Tensor::zeros({2}), unit = Tensor::ones({2});
  const std::vector<Value> trained =
      run_node("BatchNormalization", {x, unit, zero, zero, unit}, {attribute("momentum", 0.5)}, 5, 9);
  check_near(trained[1], {1.25f, 2.25f});
  check_near(trained[2], {2.625f, 2.625f});
  check_near(trained[3], {2.5f, 4.5f});
  check_near(trained[4], {4.25f, 4.25f});
  check_near(trained[0],
             {-1.212677f, -0.7276062f, -1.212677f, -0.7276062f, 0.7276062f, 1.212677f, 0.7276062f, 1.212677f},
             1e-4);
}

TEST_CASE("normalisation by a norm") {
  const Tensor x = Tensor::from(Floats{3.f, -4.f, 0.f, 5.f}, {2, 2});
  check_near(one("LpNormalization", {x}), {0.6f, -0.8f, 0, 1});
  check_near(one("LpNormalization", {x}, {attribute("p", 1), attribute("axis", 0)}),
             {1, -4.f / 9, 0, 5.f / 9});
}

TEST_CASE("determinants that need rows exchanged, and of singular matrices") {
  const Tensor matrices = Tensor::from(Floats{0.f, 1.f, 1.f, 0.f, 1.f, 2.f, 2.f, 4.f}, {2, 2, 2});
  CHECK(floats(one("Det", {matrices})) == Floats{-1, 0});
  CHECK(floats(one("Det", {Tensor::from(Floats{7.f}, {1, 1})})) == Floats{7});
  const Tensor four = Tensor::from(
      std::vector<double>{0., 0., 2., 1., 3., 1., 0., 5., 0., 4., 1., 1., 6., 2., 1., 0.}, {4, 4});
  const Value det = one("Det", {four});
  CHECK(det.dtype() == DType::F64);
  check_near(det, {-252});
}

TEST_CASE("QuantizeLinear rounds the f32 quotient, halves to even, and saturates") {
  for (const float scale : {0.1f, 0.0371f, 3.0f, 0.25f, 1.7e-5f, 812.3f})
    for (const DType dtype : {DType::U8, DType::I8, DType::U16, DType::I16}) {
      const int64_t low = is_signed(dtype) ? -(int64_t{1} << (bits_of(dtype) - 1)) : 0,
                    high = low + (int64_t{1} << bits_of(dtype)) - 1, zero = low + 100;
      std::vector<float> x{0, -0.0f, INFINITY, -INFINITY, 3e38f, -3e38f, 1e-40f};
      for (int64_t k = low - 130; k < high; k += 1 + k % 97 * k % 97) {
        const float half = (static_cast<float>(k) + 0.5f) * scale;
        for (const float v : {half, std::nextafter(half, INFINITY), std::nextafter(half, -INFINITY),
                              static_cast<float>(k) * scale})
          x.push_back(v);
      }
      const Value y = one("QuantizeLinear", {Tensor::from(x), Tensor::scalar(scale),
                                             Tensor::full({}, Scalar::of_int(dtype, zero))});
      CHECK(y.tensor().dtype() == dtype);
      const std::vector<int64_t> got = integers(y);
      for (size_t k = 0; k < x.size(); ++k) {
        CAPTURE(x[k]);
        const double rounded = std::nearbyint(static_cast<double>(x[k] / scale)) + static_cast<double>(zero);
        CHECK(got[k] == static_cast<int64_t>(std::clamp(rounded, double(low), double(high))));
      }
    }
}

TEST_CASE("quantised integers saturate, by axis too") {
  const Tensor x = Tensor::from(Floats{-300.f, -3.f, 1.f, 2.5f, 3.5f, 300.f}, {2, 3});
  const Tensor zero = Tensor::from<int8_t>({1, 0});
  const Value q = one("QuantizeLinear", {x, Tensor::from({1.f, 0.5f}), zero}, {attribute("axis", 0)});
  CHECK(q.dtype() == DType::I8);
  CHECK(integers(q) == Integers{-128, -2, 2, 5, 7, 127});
  const Value back = one("DequantizeLinear", {q, Tensor::from({1.f, 0.5f}), zero}, {attribute("axis", 0)});
  CHECK(floats(back) == Floats{-129, -3, 1, 2.5, 3.5, 63.5});
}

TEST_CASE("products of integers with a zero point for each row and column") {
  const Tensor a = Tensor::from<uint8_t>({1, 2, 3, 4}, {2, 2}),
               b = Tensor::from<uint8_t>({5, 6, 7, 8}, {2, 2});
  const Value y = one("MatMulInteger", {a, b, Tensor::from<uint8_t>({1, 3}), Tensor::from<uint8_t>({5, 6})});
  CHECK(y.dtype() == DType::I32);
  CHECK(integers(y) == Integers{2, 2, 2, 2});
  // Zero points may have the rank of the matrices, with a size of 1 along the inner axis.
  const auto bytes = [](const std::vector<uint8_t>& values, const Shape& shape) {
    return Tensor::from(values, shape);
  };
  const Tensor stacks = bytes({5, 6, 7, 8, 1, 2, 3, 4}, {2, 2, 2});
  CHECK(integers(one("MatMulInteger", {a, b, bytes({1, 3}, {2, 1}), bytes({5, 6}, {1, 2})})) ==
        Integers{2, 2, 2, 2});
  CHECK(integers(one("MatMulInteger", {a, stacks, bytes({1, 3}, {2, 1}), bytes({5, 6, 1, 1}, {2, 1, 2})})) ==
        Integers{2, 2, 2, 2, 2, 3, 2, 3});
  // A scalar has no axis for zero points of its own.
  CHECK_THROWS_WITH_AS(
      one("MatMulInteger", {a, Tensor::scalar<uint8_t>(1), Value(), Tensor::from<uint8_t>({5, 6})}),
      doctest::Contains("MatMulInteger"), Error);
}

TEST_CASE("padding of integer convolutions is the zero point") {
  const Tensor x = Tensor::full({1, 1, 2, 2}, uint8_t{5}), w = Tensor::full({1, 1, 3, 3}, int8_t{2});
  const Value y =
      one("ConvInteger", {x, w, Tensor::scalar<uint8_t>(4)}, {attribute("pads", Integers{1, 1, 1, 1})});
  CHECK(integers(y) == Integers{8, 8, 8, 8});
}

TEST_CASE("sizes that the model names give what fixed sizes give") {
  const Tensor x = Tensor::randn({6, 4}, 1), images = Tensor::randn({6, 4, 3, 3}, 2);
  const Tensor scale = Tensor::randn({4}, 3), bias = Tensor::randn({4}, 4), mean = Tensor::randn({4}, 5);
  const Tensor variance = Tensor::rand({4}, 6) + 0.5;
  const Value first = Tensor::full({1}, int64_t{0});
  struct Case {
    const char* op;
    std::vector<Value> inputs;
    Attributes attributes{};
    int opset = 17;
  };
  const Case cases[] = {
      {"Add", {x, x}},
      {"Softmax", {x}, {attribute("axis", 0)}},
      {"Softmax", {images}, {attribute("axis", 2)}, 11},
      {"Hardmax", {x}, {attribute("axis", 0)}},
      {"ReduceMean", {x}, {attribute("axes", Integers{0})}},
      {"ReduceLogSumExp", {x}},
      {"ArgMax", {x}, {attribute("select_last_index", 1)}},
      {"CumSum", {x, first}, {attribute("exclusive", 1), attribute("reverse", 1)}},
      {"BatchNormalization", {images, scale, bias, mean, variance}},
      {"InstanceNormalization", {images, scale, bias}},
      {"LayerNormalization", {x, scale, bias}},
      {"LRN", {images}, {attribute("size", 3)}},
      {"MeanVarianceNormalization", {images}},
      {"Gemm", {x, Tensor::randn({4, 4}, 7), bias}},
      {"Det", {images.index({Slice{}, 0})}},
      {"DynamicQuantizeLinear", {x}},
  };
  for (const Case& c : cases) {
    CAPTURE(std::string(c.op));
    check_near(one(c.op, c.inputs, c.attributes, c.opset, "n"),
               floats(one(c.op, c.inputs, c.attributes, c.opset)), 1e-5);
  }
}
