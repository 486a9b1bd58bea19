// Quantised ops of domain com.microsoft. Scales are powers of two, so that plain loops in double give exact
// results.
#include <doctest/doctest.h>

#include <algorithm>

#include "graph/node.hpp"
#include "support/onnx_microsoft.hpp"

using namespace lathe;
using namespace lathe::test;
using onnx::Value;

namespace {

using Integers = std::vector<int64_t>;

Tensor scale(float value) { return Tensor::scalar(value); }
Tensor zero_u8(int value) { return Tensor::scalar(static_cast<uint8_t>(value)); }
Tensor zero_i8(int value) { return Tensor::scalar(static_cast<int8_t>(value)); }

int64_t u8(double value) { return saturated(value, 0, 255); }
int64_t i8(double value) { return saturated(value, -128, 127); }

} // namespace

TEST_CASE("QLinearAdd and QLinearMul: ties go to even, sums saturate, shapes broadcast") {
  const Integers a = scattered(12, 0, 255), b = scattered(4, 0, 255, 2);
  const std::vector<Value> inputs{tensor_of<uint8_t>(a, {3, 4}),
                                  scale(0.5f),
                                  zero_u8(100),
                                  tensor_of<uint8_t>(b, {4}),
                                  scale(0.25f),
                                  Value(),
                                  scale(0.5f),
                                  zero_u8(7)};
  Integers sums, products;
  for (size_t k = 0; k < a.size(); ++k) {
    const double x = 0.5 * static_cast<double>(a[k] - 100), y = 0.25 * static_cast<double>(b[k % 4]);
    sums.push_back(u8((x + y) / 0.5 + 7));
    products.push_back(u8(x * y / 0.5 + 7));
  }
  CHECK(integers(microsoft("QLinearAdd", inputs)) == sums);
  CHECK(integers(microsoft("QLinearAdd", inputs, {}, "n")) == sums);
  CHECK(integers(microsoft("QLinearMul", inputs)) == products);
}

TEST_CASE("Functions of one quantised number") {
  Integers all(256);
  for (int64_t k = 0; k < 256; ++k) all[static_cast<size_t>(k)] = k - 128;
  const std::vector<Value> inputs{tensor_of<int8_t>(all, {256}), scale(0.125f), zero_i8(-3), scale(0.0625f),
                                  zero_i8(5)};
  Integers leaky, curve;
  for (int64_t x : all) {
    const double real = 0.125 * static_cast<double>(x + 3);
    // A quarter of an eighth may lie halfway between two sixteenths: it is rounded before the zero point
    // counts.
    leaky.push_back(i8(std::nearbyint((real < 0 ? 0.25 * real : real) * 16) + 5));
    curve.push_back(i8(std::nearbyint(16 / (1 + std::exp(-real))) + 5));
  }
  CHECK(integers(microsoft("QLinearLeakyRelu", inputs, {attribute("alpha", 0.25)})) == leaky);
  CHECK(integers(microsoft("QLinearSigmoid", inputs)) == curve);
}

TEST_CASE("QLinearSoftmax: all axes from one on before opset 13, that one since") {
  const Integers x = scattered(24, 0, 255, 3);
  const std::vector<Value> inputs{tensor_of<uint8_t>(x, {2, 3, 4}), scale(0.03125f), zero_u8(9),
                                  scale(1 / 256.f), zero_u8(0)};
  const auto expected = [&](const std::function<int64_t(int64_t)>& group_of) {
    std::vector<double> totals(24, 0);
    for (int64_t k = 0; k < 24; ++k)
      totals[static_cast<size_t>(group_of(k))] +=
          std::exp(0.03125 * static_cast<double>(x[static_cast<size_t>(k)]));
    Integers y;
    for (int64_t k = 0; k < 24; ++k)
      y.push_back(u8(256 * std::exp(0.03125 * static_cast<double>(x[static_cast<size_t>(k)])) /
                     totals[static_cast<size_t>(group_of(k))]));
    return y;
  };
  CHECK(integers(microsoft("QLinearSoftmax", inputs, {attribute("opset", 12), attribute("axis", 1)})) ==
        expected([](int64_t k) { return k / 12; }));
  CHECK(integers(microsoft("QLinearSoftmax", inputs, {attribute("opset", 13), attribute("axis", 1)})) ==
        expected([](int64_t k) { return k / 12 * 4 + k % 4; }));
}

TEST_CASE("QLinearSoftmax saturates where a number has all of the sum") {
  const std::vector<Value> alone{tensor_of<int8_t>({7}, {1, 1}), scale(0.5f), zero_i8(0), scale(1 / 256.f),
                                 zero_i8(-128)};
  CHECK(integers(microsoft("QLinearSoftmax", alone, {attribute("opset", 13)})) == Integers{127});
}

TEST_CASE("QLinearConcat, QLinearWhere and QLinearReduceMean scale anew") {
  const Integers a = scattered(6, -128, 127), b = scattered(4, -128, 127, 2);
  const auto real_a = [&](size_t k) { return 0.5 * static_cast<double>(a[k] - 11); };
  const auto real_b = [&](size_t k) { return 0.25 * static_cast<double>(b[k] + 4); };
  const Tensor first = tensor_of<int8_t>(a, {2, 3}), second = tensor_of<int8_t>(b, {2, 2});
  const auto made = [](double real) { return i8(std::nearbyint(real / 0.5) - 1); };
  Integers joined;
  for (size_t row = 0; row < 2; ++row) {
    for (size_t k = 0; k < 3; ++k) joined.push_back(made(real_a(row * 3 + k)));
    for (size_t k = 0; k < 2; ++k) joined.push_back(made(real_b(row * 2 + k)));
  }
  CHECK(integers(microsoft(
            "QLinearConcat",
            {scale(0.5f), zero_i8(-1), first, scale(0.5f), zero_i8(11), second, scale(0.25f), zero_i8(-4)},
            {attribute("axis", -1)})) == joined);

  const Integers mask{1, 0, 0, 1};
  Integers chosen;
  for (size_t k = 0; k < 4; ++k) chosen.push_back(made(mask[k] ? real_a(k) : real_b(k)));
  CHECK(integers(microsoft("QLinearWhere", {tensor_of<int64_t>(mask, {4}).cast(DType::Bool),
                                            tensor_of<int8_t>({a.begin(), a.begin() + 4}, {4}), scale(0.5f),
                                            zero_i8(11), tensor_of<int8_t>(b, {4}), scale(0.25f), zero_i8(-4),
                                            scale(0.5f), zero_i8(-1)})) == chosen);

  Integers means;
  for (size_t row = 0; row < 2; ++row) {
    double total = 0;
    for (size_t k = 0; k < 3; ++k) total += real_a(row * 3 + k);
    means.push_back(made(static_cast<float>(total / 3)));
  }
  CHECK(integers(microsoft("QLinearReduceMean", {first, scale(0.5f), zero_i8(11), scale(0.5f), zero_i8(-1)},
                           {attribute("axes", Integers{1}), attribute("keepdims", 0)})) == means);
}

TEST_CASE("Quantised averages: padding that counts or not, channels first or last") {
  const Integers x = scattered(2 * 3 * 4 * 5, 0, 255, 4);
  const Tensor first = tensor_of<uint8_t>(x, {2, 3, 4, 5});
  const auto at = [&](int64_t image, int64_t y, int64_t column) {
    return 0.5 * static_cast<double>(x[static_cast<size_t>((image * 4 + y) * 5 + column)] - 30);
  };
  for (const bool counts : {false, true}) {
    Integers pooled; // 2 x 3 windows with a row of padding above and a column before, stride 2
    for (int64_t image = 0; image < 6; ++image)
      for (int64_t top = -1; top + 2 <= 4; top += 2)
        for (int64_t left = -1; left + 3 <= 5; left += 2) {
          double total = 0, elements = 0;
          for (int64_t y = std::max<int64_t>(top, 0); y < top + 2; ++y)
            for (int64_t column = std::max<int64_t>(left, 0); column < left + 3; ++column)
              total += at(image, y, column), elements += 1;
          const auto mean = static_cast<float>(total) / static_cast<float>(counts ? 6 : elements);
          pooled.push_back(u8(mean / 0.25f + 3));
        }
    const Attributes attributes{attribute("kernel_shape", {2, 3}), attribute("strides", {2, 2}),
                                attribute("pads", {1, 1, 0, 0}),
                                attribute("count_include_pad", counts ? 1 : 0)};
    const std::vector<Value> rest{scale(0.5f), zero_u8(30), scale(0.25f), zero_u8(3)};
    std::vector<Value> inputs{first};
    inputs.insert(inputs.end(), rest.begin(), rest.end());
    CHECK(integers(microsoft("QLinearAveragePool", inputs, attributes)) == pooled);

    Attributes last = attributes;
    last.push_back(attribute("channels_last", 1));
    inputs[0] = first.permute({0, 2, 3, 1});
    const Value moved = microsoft("QLinearAveragePool", inputs, last);
    CHECK(integers(moved.tensor().permute({0, 3, 1, 2})) == pooled);
  }
  Integers global;
  for (int64_t image = 0; image < 6; ++image) {
    double total = 0;
    for (int64_t k = 0; k < 20; ++k)
      total += 0.5 * static_cast<double>(x[static_cast<size_t>(image * 20 + k)] - 30);
    global.push_back(u8(std::nearbyint(total / 20 / 0.25) + 3));
  }
  const Value mean = microsoft("QLinearGlobalAveragePool",
                               {first, scale(0.5f), zero_u8(30), scale(0.25f), zero_u8(3)}, {}, "n");
  CHECK(integers(mean) == global);
  CHECK(mean.tensor().shape() == Shape{2, 3, 1, 1});
}

TEST_CASE("NhwcMaxPool and QLinearConv read images whose channels are last") {
  const Integers x = scattered(1 * 4 * 4 * 2, -128, 127, 5), w = scattered(3 * 2 * 2 * 2, -7, 7, 6);
  const auto at = [&](int64_t row, int64_t column, int64_t channel) {
    return x[static_cast<size_t>((row * 4 + column) * 2 + channel)];
  };
  Integers largest, convolved;
  for (int64_t row = 0; row < 2; ++row)
    for (int64_t column = 0; column < 2; ++column)
      for (int64_t channel = 0; channel < 2; ++channel)
        largest.push_back(
            std::max({at(2 * row, 2 * column, channel), at(2 * row, 2 * column + 1, channel),
                      at(2 * row + 1, 2 * column, channel), at(2 * row + 1, 2 * column + 1, channel)}));
  const Tensor image = tensor_of<int8_t>(x, {1, 4, 4, 2});
  CHECK(integers(microsoft("NhwcMaxPool", {image},
                           {attribute("kernel_shape", {2, 2}), attribute("strides", {2, 2})})) == largest);

  const Integers bias{10, -20, 30};
  for (int64_t row = 0; row < 3; ++row)
    for (int64_t column = 0; column < 3; ++column)
      for (int64_t out = 0; out < 3; ++out) {
        int64_t sum = bias[static_cast<size_t>(out)];
        for (int64_t channel = 0; channel < 2; ++channel)
          for (int64_t i = 0; i < 4; ++i)
            sum += (at(row + i / 2, column + i % 2, channel) - 3) *
                   w[static_cast<size_t>((out * 2 + channel) * 4 + i)];
        const double factor = 0.5 * (out == 1 ? 0.25 : 0.125) / 0.5; // channel 1 has a scale of its own
        convolved.push_back(i8(std::nearbyint(static_cast<double>(sum) * factor) - 2));
      }
  CHECK(integers(microsoft("QLinearConv",
                           {image, scale(0.5f), zero_i8(3), tensor_of<int8_t>(w, {3, 2, 2, 2}),
                            Tensor::from({0.125f, 0.25f, 0.125f}), tensor_of<int8_t>({0, 0, 0}, {3}),
                            scale(0.5f), zero_i8(-2), tensor_of<int32_t>(bias, {3})},
                           {attribute("channels_last", 1)})) == convolved);
}

TEST_CASE("Products of quantised matrices") {
  const Integers a = scattered(2 * 5, 0, 255, 7), b = scattered(5 * 3, -128, 127, 8), zeros{3, 0, -5},
                 c{40, -700, 0};
  const std::vector<float> scales{0.5f, 0.25f, 0.125f};
  Integers quantised;
  std::vector<float> real;
  for (size_t row = 0; row < 2; ++row)
    for (size_t column = 0; column < 3; ++column) {
      int64_t sum = 0;
      for (size_t k = 0; k < 5; ++k) sum += (a[row * 5 + k] - 128) * (b[k * 3 + column] - zeros[column]);
      real.push_back(static_cast<float>(sum) * 0.5f * scales[column] + static_cast<float>(column));
      quantised.push_back(
          u8(std::nearbyint(static_cast<double>(sum + c[column]) * 0.5 * scales[column] * 2 / 32) + 100));
    }
  const Tensor left = tensor_of<uint8_t>(a, {2, 5}), right = tensor_of<int8_t>(b, {5, 3});
  const Tensor right_zero = tensor_of<int8_t>(zeros, {3}), right_scale = Tensor::from(scales);
  CHECK(floats(microsoft("MatMulIntegerToFloat", {left, right, scale(0.5f), right_scale, zero_u8(128),
                                                  right_zero, Tensor::from({0.f, 1.f, 2.f})})) == real);
  const std::vector<Value> gemm{left.transpose(),           scale(0.5f), zero_u8(128),
                                right.transpose(),          right_scale, right_zero,
                                tensor_of<int32_t>(c, {3}), scale(32.f), zero_u8(100)};
  const Attributes turned{attribute("transA", 1), attribute("transB", 1), attribute("alpha", 2.0)};
  CHECK(integers(microsoft("QGemm", gemm, turned)) == quantised);

  // Without a scale the result is of floats.
  const std::vector<Value> float_gemm(gemm.begin(), gemm.begin() + 7);
  const std::vector<float> sums = floats(microsoft("QGemm", float_gemm, turned));
  for (size_t k = 0; k < sums.size(); ++k)
    CHECK(sums[k] ==
          2 * (real[k] - static_cast<float>(k % 3) + static_cast<float>(c[k % 3]) * 0.5f * scales[k % 3]));

  const std::vector<Value> wide{tensor_of<uint16_t>({65535, 1, 2, 3}, {2, 2}),
                                tensor_of<uint16_t>({40000, 2, 1, 0}, {2, 2})};
  CHECK(integers(microsoft("MatMulInteger16", wide)) == Integers{65535LL * 40000 + 1, 131070, 80003, 4});
  CHECK(microsoft("MatMulInteger16", wide).tensor().dtype() == DType::U32);
}

TEST_CASE("DynamicQuantizeMatMul rounds A to 256 levels of its range") {
  const std::vector<float> a{-1, 0, 2, 0.3f}; // a range of 3: steps of 3 / 255, and 0 at 85
  const Integers b = scattered(4, -128, 127, 9);
  double sum = 0;
  for (size_t k = 0; k < 4; ++k)
    sum += (std::nearbyint(a[k] / (3.f / 255)) * 3 / 255) * static_cast<double>(b[k] + 5) * 0.5;
  const Value y = microsoft("DynamicQuantizeMatMul", {Tensor::from(a, {1, 4}), tensor_of<int8_t>(b, {4, 1}),
                                                      scale(0.5f), zero_i8(-5), Tensor::from({1.f})});
  CHECK(floats(y)[0] == doctest::Approx(sum + 1).epsilon(1e-5));
}

TEST_CASE(
    "DynamicQuantizeMatMul with inner sizes that differ is an error, and one that a call tells is none") {
  const Tensor b = tensor_of<int8_t>(scattered(8 * 5, -128, 127, 9), {8, 5});
  CHECK(refuses("DynamicQuantizeMatMul", {Tensor::from(quarters(9), {1, 9}), b, scale(0.5f)}, {}, 1,
                "DynamicQuantizeMatMul"));
  Graph g;
  g.input("x", DType::F32, {"rows", "inner"}).input("b", DType::I8, {8, 5}).initialiser("s", {}, Floats{0.5});
  g.node("DynamicQuantizeMatMul", {"x", "b", "s"}, {"y"}, {}, "com.microsoft").output("y");
  const Tensor x = Tensor::from(quarters(16), {2, 8});
  CHECK(floats(load(model(g)).compile()({{"x", x}, {"b", b}}).at("y")) ==
        floats(microsoft("DynamicQuantizeMatMul", {x, b, scale(0.5f)})));
}

TEST_CASE("DynamicQuantizeLSTM rounds the input, and the state before each step, to 256 levels") {
  constexpr int64_t kSteps = 3, kWidth = 2, kHidden = 2, kGates = 4 * kHidden;
  const std::vector<float> x = quarters(kSteps * kWidth, 14), b = quarters(2 * kGates, 15);
  const Integers w = scattered(kWidth * kGates, -64, 63, 16), r = scattered(kHidden * kGates, -64, 63, 17);
  const auto levels = [](const std::vector<float>& v) {
    const auto [low, high] = std::minmax_element(v.begin(), v.end());
    const float from = std::min(*low, 0.f), range = std::max(*high, 0.f) - from,
                step = range == 0 ? 1 : range / 255;
    const float zero = std::nearbyint(-from / step);
    std::vector<double> rounded;
    for (float value : v)
      rounded.push_back((std::clamp(std::nearbyint(value / step) + zero, 0.f, 255.f) - zero) * step);
    return rounded;
  };
  const auto sigmoid = [](double v) { return 1 / (1 + std::exp(-v)); };
  const std::vector<double> input = levels(x);
  std::vector<float> h(kHidden, 0.f);
  std::vector<double> c(kHidden, 0.0), y;
  for (int64_t step = 0; step < kSteps; ++step) {
    const std::vector<double> state = levels(h);
    std::vector<double> gates;
    for (int64_t g = 0; g < kGates; ++g) {
      double sum = b[static_cast<size_t>(g)] + b[static_cast<size_t>(kGates + g)];
      for (int64_t k = 0; k < kWidth; ++k)
        sum += input[static_cast<size_t>(step * kWidth + k)] *
               static_cast<double>(w[static_cast<size_t>(k * kGates + g)]) * 0.01;
      for (int64_t k = 0; k < kHidden; ++k)
        sum += state[static_cast<size_t>(k)] *
               static_cast<double>(r[static_cast<size_t>(k * kGates + g)] - 3) * 0.02;
      gates.push_back(sum);
    }
    for (size_t k = 0; k < kHidden; ++k) { // gates: input, output, forget, cell
      c[k] = sigmoid(gates[4 + k]) * c[k] + sigmoid(gates[k]) * std::tanh(gates[6 + k]);
      h[k] = static_cast<float>(sigmoid(gates[2 + k]) * std::tanh(c[k]));
      y.push_back(h[k]);
    }
  }
  const std::vector<float> got =
      floats(microsoft("DynamicQuantizeLSTM",
                       {Tensor::from(x, {kSteps, 1, kWidth}), tensor_of<int8_t>(w, {1, kWidth, kGates}),
                        tensor_of<int8_t>(r, {1, kHidden, kGates}), Tensor::from(b, {1, 2 * kGates}), Value(),
                        Value(), Value(), Value(), Tensor::from({0.01f}), tensor_of<int8_t>({0}, {1}),
                        Tensor::from({0.02f}), tensor_of<int8_t>({3}, {1})},
                       {attribute("hidden_size", kHidden)}));
  REQUIRE(got.size() == y.size());
  for (size_t k = 0; k < y.size(); ++k) CHECK(got[k] == doctest::Approx(y[k]).epsilon(1e-4));
}

TEST_CASE("MatMulNBits of a vector sums its integers by blocks") {
  const auto hits = [] {
    for (const auto& [rule, count] : graph::simplify_hits())
      if (rule == "block-product") return count;
    return uint64_t{0};
  };
  constexpr int64_t kRows = 24, kColumns = 96, kBlock = 32, kBlocks = 3;
  const std::vector<float> scales = quarters(kRows * kBlocks, 1), a = quarters(kColumns, 2);
  for (const int64_t bits : {2, 4, 8}) {
    CAPTURE(bits);
    const int64_t per_byte = 8 / bits, most = (1 << bits) - 1;
    const Integers bytes = scattered(kRows * kColumns / per_byte, 0, 255, 3);
    std::vector<float> y;
    for (int64_t n = 0; n < kRows; ++n) {
      double sum = 0;
      for (int64_t k = 0; k < kColumns; ++k) {
        const int64_t byte = bytes[static_cast<size_t>((n * kColumns + k) / per_byte)];
        const auto code = static_cast<double>(byte >> (k % per_byte * bits) & most);
        const float scale = scales[static_cast<size_t>(n * kBlocks + k / kBlock)];
        sum += a[static_cast<size_t>(k)] * scale * (code - static_cast<double>(int64_t{1} << (bits - 1)));
      }
      y.push_back(static_cast<float>(sum));
    }
    const uint64_t before = hits();
    CHECK(floats(microsoft("MatMulNBits",
                           {Tensor::from(a, {1, kColumns}),
                            tensor_of<uint8_t>(bytes, {kRows, kBlocks, kBlock / per_byte}),
                            Tensor::from(scales, {kRows, kBlocks})},
                           {attribute("bits", bits), attribute("block_size", kBlock), attribute("N", kRows),
                            attribute("K", kColumns)})) == y);
    CHECK(hits() > before);
  }
}

TEST_CASE("MatMulNBits and GatherBlockQuantized: low bits first, a zero point for each block") {
  for (const int64_t bits : {2, 4, 8}) {
    CAPTURE(bits);
    constexpr int64_t kRows = 3, kColumns = 40, kBlock = 16, kBlocks = 3;
    const int64_t per_byte = 8 / bits, most = (1 << bits) - 1;
    const Integers weights = scattered(kRows * kBlocks * kBlock, 0, most, 10),
                   points = scattered(kRows * kBlocks, 0, most, 11);
    const std::vector<float> scales = quarters(kRows * kBlocks, 12), a = quarters(2 * kColumns, 13);
    const auto pack = [&](const Integers& row_major, int64_t row) {
      Integers bytes;
      for (size_t begin = 0; begin < row_major.size(); begin += static_cast<size_t>(row))
        for (int64_t k = 0; k < row; ++k) {
          if (k % per_byte == 0) bytes.push_back(0);
          bytes.back() |= row_major[begin + static_cast<size_t>(k)] << (k % per_byte * bits);
        }
      return bytes;
    };
    const Tensor bytes = tensor_of<uint8_t>(pack(weights, kBlock), {kRows, kBlocks, kBlock / per_byte});
    const Tensor packed_points =
        tensor_of<uint8_t>(pack(points, kBlocks), {kRows, (kBlocks + per_byte - 1) / per_byte});
    const Attributes attributes{attribute("bits", bits), attribute("block_size", kBlock),
                                attribute("N", kRows), attribute("K", kColumns)};
    const auto expected = [&](bool has_points, const Integers& block_of = {}) {
      std::vector<float> y;
      for (int64_t row = 0; row < 2; ++row)
        for (int64_t n = 0; n < kRows; ++n) {
          double sum = 0;
          for (int64_t k = 0; k < kColumns; ++k) {
            const int64_t of_row = block_of.empty() ? k / kBlock : block_of[static_cast<size_t>(k)];
            const auto block = static_cast<size_t>(n * kBlocks + of_row);
            const int64_t zero = has_points ? points[block] : int64_t{1} << (bits - 1);
            sum += a[static_cast<size_t>(row * kColumns + k)] * scales[block] *
                   static_cast<double>(weights[static_cast<size_t>(n * kBlocks * kBlock + k)] - zero);
          }
          y.push_back(static_cast<float>(sum + n));
        }
      return y;
    };
    const Tensor x = Tensor::from(a, {2, kColumns}), factor = Tensor::from(scales, {kRows, kBlocks}),
                 bias = Tensor::from({0.f, 1.f, 2.f});
    CHECK(floats(microsoft("MatMulNBits", {x, bytes, factor, Value(), Value(), bias}, attributes, "n")) ==
          expected(false));
    CHECK(floats(microsoft("MatMulNBits", {x, bytes, factor, packed_points, Value(), bias}, attributes)) ==
          expected(true));
    const Tensor float_points = tensor_of<float>(points, {kRows, kBlocks});
    CHECK(floats(microsoft("MatMulNBits", {x, bytes, factor, float_points, Value(), bias}, attributes)) ==
          expected(true));
    Integers block_of = scattered(kBlocks * kBlock, 0, kBlocks - 1, 14); // also for columns that only fill up
    const auto of_blocks = [&](int64_t count) {
      return tensor_of<int32_t>({block_of.begin(), block_of.begin() + count}, {count});
    };
    for (const int64_t count : {kColumns, kBlocks * kBlock})
      CHECK(floats(microsoft("MatMulNBits", {x, bytes, factor, packed_points, of_blocks(count), bias},
                             attributes)) == expected(true, block_of));
    const auto refuses_blocks = [&](int64_t count) {
      return refuses("MatMulNBits", {x, bytes, factor, Value(), of_blocks(count)}, attributes, 1, "g_idx");
    };
    CHECK(refuses_blocks(kColumns - 1));
    block_of[5] = kBlocks;
    CHECK(refuses_blocks(kColumns));
    Attributes prepacked = attributes;
    prepacked.push_back(attribute("weight_prepacked", 1));
    CHECK(refuses("MatMulNBits", {x, bytes, factor}, prepacked, 1, "weight_prepacked"));

    std::vector<float> rows;
    for (const int64_t n : {2, 0})
      for (int64_t k = 0; k < kBlocks * kBlock; ++k) {
        const auto block = static_cast<size_t>(n * kBlocks + k / kBlock);
        rows.push_back(
            static_cast<float>(weights[static_cast<size_t>(n * kBlocks * kBlock + k)] - points[block]) *
            scales[block]);
      }
    CHECK(floats(
              microsoft("GatherBlockQuantized",
                        {bytes.reshape({kRows, -1}), tensor_of<int64_t>({-1, 0}, {2}), factor, packed_points},
                        {attribute("bits", bits), attribute("block_size", kBlock)})) == rows);
  }
}

TEST_CASE(
    "GatherBlockQuantized of elements that are not packed: any two axes, zero points that are 0 by default") {
  constexpr int64_t kSizes[] = {3, 18, 5}, kBlock = 16, kBlocks = 2; // of axis 1
  const Integers index{2, -3, 0};
  for (const DType dtype : {DType::I4, DType::U4}) {
    const int64_t low = dtype == DType::I4 ? -8 : 0;
    const Integers data = scattered(3 * 18 * 5, low, low + 15, 15),
                   zero = scattered(3 * kBlocks * 5, low, low + 15, 16);
    const std::vector<float> scales = quarters(3 * kBlocks * 5, 17);
    const Tensor x = Tensor::from(data, {3, 18, 5}).cast(dtype),
                 factor = Tensor::from(scales, {3, kBlocks, 5}),
                 points = Tensor::from(zero, {3, kBlocks, 5}).cast(dtype);
    for (const int64_t axis : {0, 2})
      for (const bool has_points : {true, false}) {
        CAPTURE(axis);
        std::vector<float> expected;
        const int64_t rows = axis == 0 ? 3 : kSizes[0], columns = axis == 2 ? 3 : kSizes[2];
        for (int64_t i = 0; i < rows; ++i)
          for (int64_t k = 0; k < kSizes[1]; ++k)
            for (int64_t j = 0; j < columns; ++j) {
              const auto from = [&](int64_t at) {
                const int64_t chosen = index[static_cast<size_t>(at)];
                return chosen < 0 ? chosen + kSizes[axis] : chosen;
              };
              const int64_t row = axis == 0 ? from(i) : i, column = axis == 2 ? from(j) : j;
              const auto block = static_cast<size_t>((row * kBlocks + k / kBlock) * 5 + column);
              const int64_t value = data[static_cast<size_t>((row * 18 + k) * 5 + column)];
              expected.push_back(static_cast<float>(value - (has_points ? zero[block] : 0)) * scales[block]);
            }
        const Value y = microsoft("GatherBlockQuantized",
                                  {x, Tensor::from(index), factor, has_points ? Value(points) : Value()},
                                  {attribute("gather_axis", axis), attribute("quantize_axis", -2),
                                   attribute("block_size", kBlock)});
        CHECK(y.shape() == Shape{rows, 18, columns});
        CHECK(floats(y) == expected);
      }
    CHECK(
        refuses("GatherBlockQuantized", {x, Tensor::from(index), factor},
                {attribute("gather_axis", 1), attribute("quantize_axis", 1), attribute("block_size", kBlock)},
                1, "expected two"));
  }
}

TEST_CASE("Inputs that an op does not have, and versions of the domain that are not known, are refused") {
  const Tensor x = tensor_of<uint8_t>({1, 2}, {2});
  CHECK(refuses("QLinearSigmoid", {x, scale(1), zero_u8(0), scale(1), zero_u8(0), scale(1)}, {}, 1,
                "expected at most 5"));
  CHECK(refuses("QLinearSigmoid", {x, scale(1), zero_u8(0), scale(1), zero_u8(0)}, {attribute("axis", 1)}, 1,
                "'axis'"));
  CHECK(refuses("QLinearSigmoid", {x.cast(DType::I32), scale(1), zero_u8(0), scale(1), zero_u8(0)}, {}, 1,
                "expected u8 or i8"));
}
