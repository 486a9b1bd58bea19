// Quantised models: the products of every family of ops become sums of products of 8-bit integers, one for
// each product, and the values are those of plain loops. Scales are powers of two, so that loops in double
// are exact.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "graph/scan.hpp"
#include "graph/tensor_impl.hpp"
#include "support/onnx_microsoft.hpp"

using namespace lathe;
using namespace lathe::test;

namespace {

using Integers = std::vector<int64_t>;
using Bytes = std::vector<uint8_t>;
using SignedBytes = std::vector<int8_t>;

Integers bytes(size_t count, int64_t low, uint64_t seed) {
  Integers values = scattered(static_cast<int64_t>(count), low, low + 255, seed);
  values.front() = low;
  values.back() = low + 255;
  return values;
}
Bytes u8s(const Integers& values) { return {values.begin(), values.end()}; }
SignedBytes i8s(const Integers& values) { return {values.begin(), values.end()}; }

int64_t as_u8(double value) { return saturated(value, 0, 255); }

/// Of the sums of products in a model: how many are of integers of 8 bits, and how many are not.
struct Sums {
  int integer = 0, other = 0;
  bool operator==(const Sums&) const = default;
};
std::ostream& operator<<(std::ostream& out, const Sums& sums) {
  return out << sums.integer << " of integers, " << sums.other << " others";
}

bool is_widened_byte(const graph::NodeRef& operand) {
  const graph::Node* at = operand.get();
  while (at->op == Op::View) at = at->sources[0].get();
  return at->op == Op::Cast && at->dtype == DType::I32 && size_of(at->sources[0]->dtype) == 1;
}

Sums sums_of_products(const std::vector<graph::NodeRef>& roots) {
  Sums found;
  const auto count = [&](const std::vector<graph::NodeRef>& nodes) {
    for (const graph::NodeRef& n : nodes) {
      if (n->op != Op::Reduce || n->sources[0]->op != Op::Mul) continue;
      const auto& factors = n->sources[0]->sources;
      ++(is_widened_byte(factors[0]) && is_widened_byte(factors[1]) ? found.integer : found.other);
    }
  };
  std::vector<graph::NodeRef> simple = graph::simplify(roots);
  count(graph::topological_order(simple));
  graph::with_bodies(simple, [&](const std::vector<graph::NodeRef>& results) {
    count(graph::topological_order(graph::simplify(results)));
    return results;
  });
  return found;
}

Sums sums_in(const Graph& g) {
  std::vector<graph::NodeRef> roots;
  for (const auto& [name, tensor] : load(model(g, 17, {}, {"com.microsoft"})).tensors())
    roots.push_back(graph::node_of(tensor));
  return sums_of_products(roots);
}

onnx::Value run(const Graph& g, const Tensor& x) {
  return load(model(g, 17, {}, {"com.microsoft"})).compile()({{"x", x}}).at("y");
}

constexpr size_t kRows = 3, kTerms = 13, kColumns = 5;

/// x [rows, terms] of u8, with a zero point, and weights [terms, columns] of i8 or u8, with one for each
/// column.
struct Product {
  Integers x = bytes(kRows * kTerms, 0, 1), w, zeros;
  bool is_signed;
  int64_t x_zero = 117;

  explicit Product(bool is_signed_weight) : is_signed(is_signed_weight) {
    w = bytes(kTerms * kColumns, is_signed ? -128 : 0, 2);
    zeros = is_signed ? Integers{0, -3, 127, 5, -128} : Integers{128, 0, 255, 5, 128};
  }
  Tensor input() const { return Tensor::from(u8s(x), {kRows, kTerms}); }
  int64_t sum(size_t row, size_t column) const {
    int64_t total = 0;
    for (size_t t = 0; t < kTerms; ++t)
      total += (x[row * kTerms + t] - x_zero) * (w[t * kColumns + column] - zeros[column]);
    return total;
  }
  /// Initialisers "w" and "wz", "xz", "xs" of 1/4, "ws" of 1/8 and 1/16 by column, "ys" of 8, "yz" of 100.
  Graph graph() const {
    Graph g;
    g.input("x", DType::U8, {int64_t{kRows}, int64_t{kTerms}});
    const std::vector<int64_t> matrix{kTerms, kColumns}, row{kColumns};
    if (is_signed)
      g.initialiser("w", matrix, i8s(w)).initialiser("wz", row, i8s(zeros));
    else
      g.initialiser("w", matrix, u8s(w)).initialiser("wz", row, u8s(zeros));
    std::vector<float> scales;
    for (size_t c = 0; c < kColumns; ++c) scales.push_back(scale(c));
    g.initialiser<uint8_t>("xz", {}, {static_cast<uint8_t>(x_zero)}).initialiser<float>("xs", {}, {0.25f});
    g.initialiser("ws", row, scales)
        .initialiser<float>("ys", {}, {8.f})
        .initialiser<uint8_t>("yz", {}, {100});
    return g;
  }
  static float scale(size_t column) { return column % 2 ? 0.125f : 0.0625f; }

  template <class F> Integers each(F&& f) const {
    Integers values;
    for (size_t r = 0; r < kRows; ++r)
      for (size_t c = 0; c < kColumns; ++c) values.push_back(f(sum(r, c), c));
    return values;
  }
};

} // namespace

TEST_CASE("MatMulInteger and QLinearMatMul") {
  for (const bool is_signed : {true, false}) {
    const Product p(is_signed);
    Graph integer = p.graph();
    integer.node("MatMulInteger", {"x", "w", "xz", "wz"}, {"y"}).output("y", DType::I32);
    CHECK(sums_in(integer) == Sums{1, 0});
    CHECK(integers(run(integer, p.input())) == p.each([](int64_t sum, size_t) { return sum; }));

    Graph linear = p.graph();
    linear.node("QLinearMatMul", {"x", "xs", "xz", "w", "ws", "wz", "ys", "yz"}, {"y"})
        .output("y", DType::U8);
    CHECK(sums_in(linear) == Sums{1, 0});
    CHECK(integers(run(linear, p.input())) == p.each([](int64_t sum, size_t c) {
      return as_u8(std::nearbyint(double(sum) * 0.25 * Product::scale(c) / 8) + 100);
    }));
  }
}

TEST_CASE("next to a half, products are scaled by one factor of the three scales") {
  // x w * (xs ws / ys), each result in f32, is on one side of a half; (x w * xs ws) / ys is not.
  struct Tie {
    uint8_t x;
    int8_t w;
    float xs, ws, ys;
    int64_t y, y_by_quotient;
  };
  for (const Tie& tie :
       {Tie{250, 24, 0.018f, 0.055f, 3.96f, 1, 2}, Tie{220, 65, 0.075f, 0.098f, 0.77f, 136, 137},
        Tie{255, 20, 0.05f, 0.003f, 0.17f, 5, 4}}) {
    CAPTURE(tie.y);
    const float product = static_cast<float>(tie.x * tie.w), scales = tie.xs * tie.ws,
                factor = scales / tie.ys;
    const float scaled = product * scales;
    CHECK(static_cast<int64_t>(std::nearbyint(product * factor)) == tie.y);
    CHECK(static_cast<int64_t>(std::nearbyint(scaled / tie.ys)) == tie.y_by_quotient);
    for (const char* op : {"QLinearMatMul", "QLinearConv"}) {
      CAPTURE(op);
      const Shape shape = op == std::string("QLinearConv") ? Shape{1, 1, 1, 1} : Shape{1, 1};
      const Tensor x = Tensor::from<uint8_t>({tie.x}).reshape(shape),
                   w = Tensor::from<int8_t>({tie.w}).reshape(shape);
      const onnx::Value x_zero(Tensor::zeros({}, DType::U8)), w_zero(Tensor::zeros({}, DType::I8));
      CHECK(integers(one(op, {x, Tensor::scalar(tie.xs), x_zero, w, Tensor::scalar(tie.ws), w_zero,
                              Tensor::scalar(tie.ys), x_zero})) == Integers{tie.y});
    }
  }
}

TEST_CASE("MatMul and Gemm between DequantizeLinear and QuantizeLinear") {
  for (const bool is_signed : {true, false})
    for (const char* op : {"MatMul", "Gemm"}) {
      const Product p(is_signed);
      const bool has_bias = op == std::string("Gemm");
      Graph g = p.graph();
      g.initialiser<float>("b", {kColumns}, {1.5f, -2.f, 40.f, 0.f, -0.5f});
      g.node("DequantizeLinear", {"x", "xs", "xz"}, {"xf"});
      g.node("DequantizeLinear", {"w", "ws", "wz"}, {"wf"}, {attribute("axis", 1)});
      g.node(op, has_bias ? Names{"xf", "wf", "b"} : Names{"xf", "wf"}, {"p"}).node("Relu", {"p"}, {"r"});
      g.node("QuantizeLinear", {"r", "ys", "yz"}, {"y"}).output("y", DType::U8);
      CHECK(sums_in(g) == Sums{1, 0});
      const double bias[] = {1.5, -2, 40, 0, -0.5};
      CHECK(integers(run(g, p.input())) == p.each([&](int64_t sum, size_t c) {
        const double real = double(sum) * 0.25 * Product::scale(c) + (has_bias ? bias[c] : 0);
        return as_u8(std::nearbyint(std::max(real, 0.0) / 8) + 100);
      }));
    }
}

TEST_CASE("DynamicQuantizeLinear with what follows, DynamicQuantizeMatMul and MatMulIntegerToFloat") {
  const Product p(true);
  std::vector<float> x; // of a range of 255 / 4, so that its scale is 1/4 and its zero point 117
  for (const int64_t v : p.x) x.push_back(0.25f * static_cast<float>(v - p.x_zero));
  Graph steps = p.graph(), fused = p.graph(), to_float = p.graph();
  for (Graph* g : {&steps, &fused}) g->input("f", DType::F32, {int64_t{kRows}, int64_t{kTerms}});
  steps.node("DynamicQuantizeLinear", {"f"}, {"q", "qs", "qz"})
      .node("MatMulInteger", {"q", "w", "qz", "wz"}, {"i"});
  steps.node("Cast", {"i"}, {"c"}, {attribute("to", 1)})
      .node("Mul", {"qs", "ws"}, {"s"})
      .node("Mul", {"c", "s"}, {"y"});
  fused.node("DynamicQuantizeMatMul", {"f", "w", "ws", "wz"}, {"y"}, {}, "com.microsoft");
  to_float.node("MatMulIntegerToFloat", {"x", "w", "xs", "ws", "xz", "wz"}, {"y"}, {}, "com.microsoft");
  for (Graph* g : {&steps, &fused, &to_float}) {
    g->output("y");
    CHECK(sums_in(*g) == Sums{1, 0});
    const onnx::NamedValues fed{{"x", p.input()}, {"f", Tensor::from(x, {kRows, kTerms})}};
    const onnx::Value y = load(model(*g, 17, {}, {"com.microsoft"}))
                              .compile()(g == &to_float ? onnx::NamedValues{{"x", p.input()}} : fed)
                              .at("y");
    Doubles expected;
    for (const int64_t scaled : p.each([](int64_t sum, size_t c) { return sum * (c % 2 ? 2 : 1); }))
      expected.push_back(double(scaled) * 0.25 * 0.0625);
    check_close(y, expected, 0);
  }
}

TEST_CASE("QGemm") {
  const Product p(false);
  Graph g = p.graph();
  g.initialiser<int32_t>("c", {kColumns}, {40, -700, 0, 9, 1});
  g.node("QGemm", {"x", "xs", "xz", "w", "ws", "wz", "c", "ys", "yz"}, {"y"}, {}, "com.microsoft");
  g.output("y", DType::U8);
  CHECK(sums_in(g) == Sums{1, 0});
  const int64_t c[] = {40, -700, 0, 9, 1};
  CHECK(integers(run(g, p.input())) == p.each([&](int64_t sum, size_t column) {
    return as_u8(std::nearbyint(double(sum + c[column]) * 0.25 * Product::scale(column) / 8) + 100);
  }));
}

TEST_CASE("convolutions: ConvInteger, QLinearConv of both domains, and Conv between DequantizeLinear and "
          "QuantizeLinear") {
  constexpr size_t kChannels = 2, kSize = 5, kFilters = 3, kOut = 3; // 3 x 3 windows of stride 2, padded by 1
  const Integers x = bytes(kChannels * kSize * kSize, 0, 3), w = bytes(kFilters * kChannels * 9, 0, 4);
  const int64_t x_zero = 131, w_zero = 128;
  Integers sums;
  for (size_t f = 0; f < kFilters; ++f)
    for (size_t row = 0; row < kOut; ++row)
      for (size_t column = 0; column < kOut; ++column) {
        int64_t sum = 0;
        for (size_t c = 0; c < kChannels; ++c)
          for (size_t t = 0; t < 9; ++t) {
            const size_t i = 2 * row + t / 3, j = 2 * column + t % 3; // in the padded image
            if (i < 1 || j < 1 || i > kSize || j > kSize) continue;
            sum +=
                (x[(c * kSize + i - 1) * kSize + j - 1] - x_zero) * (w[(f * kChannels + c) * 9 + t] - w_zero);
          }
        sums.push_back(sum);
      }
  Integers quantised;
  for (const int64_t sum : sums)
    quantised.push_back(as_u8(std::nearbyint(double(sum) * 0.25 * 0.125 / 16) + 100));

  const Attributes windows{attribute("pads", {1, 1, 1, 1}), attribute("strides", {2, 2})};
  for (const char* form : {"ConvInteger", "QLinearConv", "com.microsoft", "Conv"}) {
    CAPTURE(form);
    Graph g;
    g.input("x", DType::U8, {1, int64_t{kChannels}, int64_t{kSize}, int64_t{kSize}});
    g.initialiser("w", {kFilters, kChannels, 3, 3}, u8s(w)).initialiser<uint8_t>("wz", {}, {w_zero});
    g.initialiser<uint8_t>("xz", {}, {x_zero})
        .initialiser<float>("xs", {}, {0.25f})
        .initialiser<float>("ws", {}, {0.125f});
    g.initialiser<float>("ys", {}, {16.f}).initialiser<uint8_t>("yz", {}, {100});
    const std::string name = form;
    const bool is_integer = name == "ConvInteger";
    if (is_integer) {
      g.node(name, {"x", "w", "xz", "wz"}, {"y"}, windows);
    } else if (name == "Conv") {
      g.node("DequantizeLinear", {"x", "xs", "xz"}, {"xf"})
          .node("DequantizeLinear", {"w", "ws", "wz"}, {"wf"});
      g.node("Conv", {"xf", "wf"}, {"c"}, windows).node("QuantizeLinear", {"c", "ys", "yz"}, {"y"});
    } else {
      g.node("QLinearConv", {"x", "xs", "xz", "w", "ws", "wz", "ys", "yz"}, {"y"}, windows,
             name == "com.microsoft" ? name : "");
    }
    g.output("y", is_integer ? DType::I32 : DType::U8);
    CHECK(sums_in(g) == Sums{1, 0});
    const Tensor image = Tensor::from(u8s(x), {1, kChannels, kSize, kSize});
    CHECK(integers(run(g, image)) == (is_integer ? sums : quantised));
  }
}

TEST_CASE("DynamicQuantizeLSTM: the products of the input and of each step") {
  constexpr int64_t kInputs = 3, kHidden = 2, kGates = 4 * kHidden;
  Graph g;
  g.input("x", DType::F32, {4, 1, kInputs});
  g.initialiser("w", {1, kInputs, kGates}, i8s(bytes(kInputs * kGates, -128, 5)));
  g.initialiser("r", {1, kHidden, kGates}, u8s(bytes(kHidden * kGates, 0, 6)));
  g.initialiser<float>("ws", {1}, {0.01f}).initialiser<int8_t>("wz", {1}, {3});
  g.initialiser<float>("rs", {1}, {0.01f}).initialiser<uint8_t>("rz", {1}, {128});
  g.node("DynamicQuantizeLSTM", {"x", "w", "r", "", "", "", "", "", "ws", "wz", "rs", "rz"}, {"y"},
         {attribute("hidden_size", kHidden)}, "com.microsoft");
  g.output("y");
  CHECK(sums_in(g) == Sums{2, 0});
}

TEST_CASE("recurrences of dequantised numbers: the product of the input") {
  constexpr int64_t kInputs = 3, kHidden = 2;
  for (const auto& [op, gates] : {std::pair{"LSTM", int64_t{4}}, {"GRU", int64_t{3}}, {"RNN", int64_t{1}}}) {
    CAPTURE(op);
    Graph g;
    g.input("x", DType::U8, {4, 1, kInputs})
        .initialiser<float>("s", {}, {0.25f})
        .initialiser<uint8_t>("xz", {}, {117});
    const Integers w = bytes(static_cast<size_t>(gates * kHidden * kInputs), -128, 5);
    g.initialiser("w", {1, gates * kHidden, kInputs}, i8s(w)).initialiser<int8_t>("wz", {}, {-5});
    g.initialiser("r", {1, gates * kHidden, kHidden}, quarters(gates * kHidden * kHidden));
    g.node("DequantizeLinear", {"x", "s", "xz"}, {"xf"}).node("DequantizeLinear", {"w", "s", "wz"}, {"wf"});
    g.node(op, {"xf", "wf", "r"}, {"y"}, {attribute("hidden_size", kHidden)}).output("y");
    CHECK(sums_in(g) == Sums{1, gates == 3 ? 2 : 1}); // the states are no integers
    Floats real;
    for (const int64_t v : w) real.push_back(0.25f * static_cast<float>(v + 5));
    const Integers x = bytes(4 * kInputs, 0, 9);
    Floats fed;
    for (const int64_t v : x) fed.push_back(0.25f * static_cast<float>(v - 117));
    const onnx::Value expected =
        one(op,
            {Tensor::from(fed, {4, 1, kInputs}), Tensor::from(real, {1, gates * kHidden, kInputs}),
             Tensor::from(quarters(gates * kHidden * kHidden), {1, gates * kHidden, kHidden})},
            {attribute("hidden_size", kHidden)});
    CHECK(floats(run(g, Tensor::from(u8s(x), {4, 1, kInputs}))) == floats(expected));
  }
}
