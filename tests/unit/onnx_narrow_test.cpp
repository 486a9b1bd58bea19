// Narrow dtypes in ONNX models: tensors of a file, Cast with its attributes, QuantizeLinear and
// DequantizeLinear. Expected numbers are written out, from the operators' definitions.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "support/messages.hpp"
#include "support/onnx_node.hpp"

using namespace lathe;
using namespace lathe::test;
using onnx::Value;

namespace {

using Floats = std::vector<float>;
using Integers = std::vector<int64_t>;

constexpr float kInfinite = std::numeric_limits<float>::infinity(),
                kNan = std::numeric_limits<float>::quiet_NaN();

lathe_onnx::TensorProto bytes_proto(DType dtype, const Integers& dims, const std::string& bytes,
                                    bool raw = true) {
  lathe_onnx::TensorProto proto;
  proto.set_data_type(onnx_dtype(dtype));
  for (const int64_t size : dims) proto.add_dims(size);
  if (raw)
    proto.set_raw_data(bytes);
  else
    for (const char byte : bytes) proto.add_int32_data(static_cast<unsigned char>(byte));
  return proto;
}

/// The codes of a tensor of 8 bits an element.
std::vector<uint8_t> codes(const Value& value) {
  return value.tensor().bitcast(DType::U8).to_vector<uint8_t>();
}

Attribute to(DType dtype) { return attribute("to", onnx_dtype(dtype)); }

Value i4(const std::vector<int8_t>& values) { return Value(Tensor::from(values).cast(DType::I4)); }

} // namespace

TEST_CASE("tensors of a file are packed, in raw data and in lists") {
  for (const bool raw : {true, false}) {
    Graph graph;
    graph.initialiser("i4", bytes_proto(DType::I4, {3}, "\x81\x07", raw))
        .initialiser("u4", bytes_proto(DType::U4, {2, 2}, "\x81\xF0", raw))
        .initialiser("u2", bytes_proto(DType::U2, {5}, "\xE4\x02", raw))
        .initialiser("f4", bytes_proto(DType::F4E2M1, {3}, "\xF1\x02", raw))
        .initialiser("f8", bytes_proto(DType::F8E5M2, {2}, "\x3C\x7C", raw));
    for (const char* name : {"i4", "u4", "u2", "f4", "f8"})
      graph.node("Cast", {name}, {std::string("y_") + name}, {to(DType::F32)})
          .output(std::string("y_") + name);
    const onnx::NamedValues y = load(model(graph, 25)).compile()({});
    CHECK(floats(y.at("y_i4")) == Floats{1, -8, 7});
    CHECK(floats(y.at("y_u4")) == Floats{1, 8, 0, 15});
    CHECK(floats(y.at("y_u2")) == Floats{0, 1, 2, 3, 2});
    CHECK(floats(y.at("y_f4")) == Floats{0.5, -6, 1});
    CHECK(floats(y.at("y_f8")) == Floats{1, kInfinite});
  }
}

TEST_CASE("too few or too many bytes are refused") {
  for (const char* bytes : {"\x81", "\x81\x07\x01"}) {
    Graph graph;
    graph.initialiser("w", bytes_proto(DType::I4, {3}, bytes))
        .node("Cast", {"w"}, {"y"}, {to(DType::F32)})
        .output("y");
    mentions(message_of([&] { (void)load(model(graph, 25)); }), "expected 2 for i4[3]");
  }
}

TEST_CASE("Cast to floats of 8 bits, saturating and not") {
  const Value x(Tensor::from<float>({1, 1000, -1000, kInfinite, 0, -0.f, kNan}));
  const auto cast = [&](DType dtype, int saturate) {
    return codes(one("Cast", {x}, {to(dtype), attribute("saturate", saturate)}, 19));
  };
  using Codes = std::vector<uint8_t>;
  CHECK(cast(DType::F8E4M3FN, 1) == Codes{0x38, 0x7E, 0xFE, 0x7E, 0x00, 0x80, 0x7F});
  CHECK(cast(DType::F8E4M3FN, 0) == Codes{0x38, 0x7F, 0xFF, 0x7F, 0x00, 0x80, 0x7F});
  CHECK(cast(DType::F8E4M3FNUZ, 1) == Codes{0x40, 0x7F, 0xFF, 0x7F, 0x00, 0x00, 0x80});
  CHECK(cast(DType::F8E4M3FNUZ, 0) == Codes{0x40, 0x80, 0x80, 0x80, 0x00, 0x00, 0x80});
  CHECK(cast(DType::F8E5M2, 1)[3] == 0x7B);
  CHECK(cast(DType::F8E5M2, 0)[3] == 0x7C);
  CHECK(cast(DType::F8E5M2FNUZ, 0)[3] == 0x80);
}

TEST_CASE("Cast to f8e8m0 rounds as it is told, up unless told") {
  const Value x(Tensor::from<float>({1, 1.25, 1.5, 3, 0}));
  using Codes = std::vector<uint8_t>;
  CHECK(codes(one("Cast", {x}, {to(DType::F8E8M0)}, 24)) == Codes{127, 128, 128, 129, 0});
  CHECK(codes(one("Cast", {x}, {to(DType::F8E8M0), attribute("round_mode", "down")}, 24)) ==
        Codes{127, 127, 127, 128, 0});
  CHECK(codes(one("Cast", {x},
                  {to(DType::F8E8M0), attribute("round_mode", "nearest"), attribute("saturate", 0)}, 24)) ==
        Codes{127, 127, 128, 129, 255});
  mentions(
      message_of([&] { (void)one("Cast", {x}, {to(DType::F8E8M0), attribute("round_mode", "odd")}, 24); }),
      "round_mode 'odd', expected up, down or nearest");
}

TEST_CASE("Cast to integers of 4 bits keeps the low bits; CastLike, Identity, Reshape and Transpose") {
  const Value x(Tensor::from<float>({-9, 7.9, 8, 15}));
  CHECK(integers(one("Cast", {x}, {to(DType::I4)}, 21)) == Integers{7, 7, -8, -1});
  CHECK(integers(one("CastLike", {x, i4({0})}, {}, 21)) == Integers{7, 7, -8, -1});
  CHECK(one("Identity", {i4({1, -2, 3})}, {}, 21).dtype() == DType::I4);
  CHECK(integers(one("Identity", {i4({1, -2, 3})}, {}, 21)) == Integers{1, -2, 3});
  const Value m(Tensor::from<int8_t>({{1, -2, 3}, {-4, 5, -6}}).cast(DType::I4));
  CHECK(integers(one("Transpose", {m}, {}, 21)) == Integers{1, -4, -2, 5, 3, -6});
  CHECK(integers(one("Reshape", {m, Value(Tensor::from<int64_t>({3, 2}))}, {}, 21)) ==
        Integers{1, -2, 3, -4, 5, -6});
}

TEST_CASE("QuantizeLinear saturates") {
  const Value x(Tensor::from<float>({-100, -3, 0.5, 1.5, 100})), scale(Tensor::from<float>({1}));
  CHECK(integers(one("QuantizeLinear", {x, scale, i4({1})}, {}, 21)) == Integers{-8, -2, 1, 3, 7});
  CHECK(integers(one("QuantizeLinear", {x, scale}, {attribute("output_dtype", onnx_dtype(DType::U4))}, 21)) ==
        Integers{0, 0, 0, 2, 15});
  CHECK(floats(one("QuantizeLinear", {x, scale}, {attribute("output_dtype", onnx_dtype(DType::F4E2M1))},
                   23)) == Floats{-6, -3, 0.5, 1.5, 6});
  const Attribute f8 = attribute("output_dtype", onnx_dtype(DType::F8E4M3FN));
  const Value large(Tensor::from<float>({1000, 17, -1000}));
  CHECK(floats(one("QuantizeLinear", {large, scale}, {f8}, 21)) == Floats{448, 16, -448});
  CHECK(std::isnan(floats(one("QuantizeLinear", {large, scale}, {f8, attribute("saturate", 0)}, 21))[0]));
}

TEST_CASE("DequantizeLinear by axis and by blocks") {
  const Value x(Tensor::from<int8_t>({{1, -8, 7, 2}, {3, 4, -5, 6}}).cast(DType::I4));
  const Value by_row(Tensor::from<float>({2, 10})), zeros = i4({1, -1});
  CHECK(floats(one("DequantizeLinear", {x, by_row, zeros}, {attribute("axis", 0)}, 21)) ==
        Floats{0, -18, 12, 2, 40, 50, -40, 70});
  const Value blocks(Tensor::from<float>({{1, 2}, {10, 20}}));
  CHECK(floats(one("DequantizeLinear", {x, blocks}, {attribute("axis", 1), attribute("block_size", 2)},
                   21)) == Floats{1, -8, 14, 4, 30, 40, -100, 120});
  const Value f8(Tensor::from<float>({1.5, -448}).cast(DType::F8E4M3FN));
  CHECK(floats(one("DequantizeLinear", {f8, Value(Tensor::from<float>({2}))}, {}, 21)) == Floats{3, -896});
  const Value scale(Tensor::from<float>({0.5}).cast(DType::F8E8M0));
  CHECK(floats(one("DequantizeLinear", {x, scale}, {attribute("output_dtype", onnx_dtype(DType::F32))},
                   25)) == Floats{0.5, -4, 3.5, 1, 1.5, 2, -2.5, 3});
}

TEST_CASE("a product with weights of 4 bits in blocks, saved and loaded") {
  std::string bytes;
  Floats w(8 * 6), scales(4 * 6), x(2 * 8), expected(2 * 6);
  for (size_t k = 0; k < w.size(); ++k) w[k] = static_cast<float>(static_cast<int>(k * 7 % 16) - 8);
  for (size_t k = 0; k < w.size(); k += 2)
    bytes += static_cast<char>((static_cast<int>(w[k]) & 15) | (static_cast<int>(w[k + 1]) & 15) << 4);
  for (size_t k = 0; k < scales.size(); ++k) scales[k] = 0.25f * static_cast<float>(1 + k % 5);
  for (size_t k = 0; k < x.size(); ++k) x[k] = static_cast<float>(static_cast<int>(k * 3 % 7) - 3);
  for (size_t r = 0; r < 2; ++r)
    for (size_t c = 0; c < 6; ++c)
      for (size_t k = 0; k < 8; ++k)
        expected[r * 6 + c] += x[r * 8 + k] * w[k * 6 + c] * scales[k / 2 * 6 + c];
  Graph graph;
  graph.input("x", DType::F32, {2, 8})
      .initialiser("w", bytes_proto(DType::I4, {8, 6}, bytes))
      .initialiser<float>("s", {4, 6}, scales)
      .node("DequantizeLinear", {"w", "s"}, {"d"}, {attribute("axis", 0), attribute("block_size", 2)})
      .node("MatMul", {"x", "d"}, {"y"})
      .node("Identity", {"w"}, {"z"})
      .output("y", DType::F32, Dims{2, 6})
      .output("z", DType::I4, Dims{8, 6});
  const onnx::NamedValues y = load(model(graph, 21)).compile()({{"x", Value(Tensor::from(x, {2, 8}))}});
  CHECK(floats(y.at("y")) == expected);
  CHECK(floats(y.at("z")) == w);
}
