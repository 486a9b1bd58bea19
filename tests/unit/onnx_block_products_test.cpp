// A vector times weights that DequantizeLinear makes of integers in blocks, for every dtype, layout and zero
// point, beside plain loops. Scales are quarters, so that the loops are exact.
#include <doctest/doctest.h>

#include "graph/node.hpp"
#include "support/devices.hpp"
#include "support/onnx_microsoft.hpp"

using namespace lathe;
using namespace lathe::test;

namespace {

using Integers = std::vector<int64_t>;

/// Weights [k, n], and their parameters [blocks of k, n].
struct Weights {
  DType dtype;
  int64_t k, n, block;
  bool has_zeros;
  Integers q, zeros;
  std::vector<float> scales;

  Weights(DType d, int64_t rows, int64_t columns, int64_t of_block, bool with_zeros)
      : dtype(d), k(rows), n(columns), block(of_block), has_zeros(with_zeros) {
    const int64_t codes = int64_t{1} << bits_of(d), least = is_signed(d) ? -codes / 2 : 0;
    q = scattered(k * n, least, least + codes - 1, 1);
    zeros = scattered(blocks() * n, least, least + codes - 1, 2);
    scales = quarters(blocks() * n, 3);
  }
  int64_t blocks() const { return (k + block - 1) / block; }
  double at(int64_t row, int64_t column) const {
    const auto place = static_cast<size_t>(row * n + column),
               of_block = static_cast<size_t>(row / block * n + column);
    return static_cast<double>(q[place] - (has_zeros ? zeros[of_block] : 0)) * scales[of_block];
  }
};

/// The matrix, or its transpose.
template <class T> std::vector<T> laid_out(const std::vector<T>& values, int64_t columns, bool transposed) {
  if (!transposed) return values;
  std::vector<T> out;
  const int64_t rows = static_cast<int64_t>(values.size()) / columns;
  for (int64_t c = 0; c < columns; ++c)
    for (int64_t r = 0; r < rows; ++r) out.push_back(values[static_cast<size_t>(r * columns + c)]);
  return out;
}

lathe_onnx::TensorProto packed(DType dtype, const Integers& dims, const Integers& values) {
  const int bits = bits_of(dtype);
  std::string bytes((values.size() * static_cast<size_t>(bits) + 7) / 8, '\0');
  for (size_t k = 0; k < values.size(); ++k) {
    const size_t bit = k * static_cast<size_t>(bits);
    const auto code = static_cast<unsigned>(values[k]) & ((1u << bits) - 1);
    bytes[bit / 8] = static_cast<char>(static_cast<unsigned char>(bytes[bit / 8]) | code << bit % 8);
  }
  lathe_onnx::TensorProto proto;
  proto.set_data_type(onnx_dtype(dtype));
  for (const int64_t size : dims) proto.add_dims(size);
  proto.set_raw_data(bytes);
  return proto;
}

/// x times the weights; `by_rows`: the file has them transposed.
onnx::Model product(const Weights& w, int64_t rows_of_x, bool by_rows) {
  const auto dims = [&](int64_t first, int64_t second) {
    return by_rows ? Integers{second, first} : Integers{first, second};
  };
  Graph graph;
  graph.input("x", DType::F32, {rows_of_x, w.k})
      .initialiser("q", packed(w.dtype, dims(w.k, w.n), laid_out(w.q, w.n, by_rows)))
      .initialiser<float>("s", dims(w.blocks(), w.n), laid_out(w.scales, w.n, by_rows));
  Names inputs{"q", "s"};
  if (w.has_zeros) {
    graph.initialiser("z", packed(w.dtype, dims(w.blocks(), w.n), laid_out(w.zeros, w.n, by_rows)));
    inputs.push_back("z");
  }
  graph.node("DequantizeLinear", inputs, {"w"},
             {attribute("axis", by_rows ? 1 : 0), attribute("block_size", w.block)});
  if (by_rows)
    graph.node("Gemm", {"x", "w"}, {"y"}, {attribute("transB", 1)});
  else
    graph.node("MatMul", {"x", "w"}, {"y"});
  graph.output("y");
  return load(model(graph, 25));
}

uint64_t hits() {
  for (const auto& [rule, count] : graph::simplify_hits())
    if (rule == "block-product") return count;
  return 0;
}

/// Whether the rule has made sums of blocks.
bool check(const Weights& w, int64_t rows_of_x, bool by_rows, const CompileOptions& options) {
  CAPTURE(to_string(w.dtype));
  CAPTURE(w.k);
  CAPTURE(w.n);
  CAPTURE(w.has_zeros);
  CAPTURE(rows_of_x);
  CAPTURE(by_rows);
  const std::vector<float> x = quarters(rows_of_x * w.k, 4);
  std::vector<float> expected;
  for (int64_t m = 0; m < rows_of_x; ++m)
    for (int64_t n = 0; n < w.n; ++n) {
      double sum = 0;
      for (int64_t k = 0; k < w.k; ++k) sum += x[static_cast<size_t>(m * w.k + k)] * w.at(k, n);
      expected.push_back(static_cast<float>(sum));
    }
  const uint64_t before = hits();
  const onnx::NamedValues y =
      product(w, rows_of_x, by_rows)
          .compile({.compile = options})({{"x", onnx::Value(Tensor::from(x, {rows_of_x, w.k}))}});
  CHECK(floats(y.at("y")) == expected);
  return hits() > before;
}

constexpr DType kDTypes[] = {DType::I4, DType::U4, DType::I2, DType::U2, DType::I8, DType::U8};

} // namespace

TEST_CASE("a vector times integers in blocks") {
  for (const char* device : {"interp", "cpu"})
    for (const DType dtype : kDTypes)
      for (const bool by_rows : {false, true})
        for (const bool has_zeros : {false, true}) {
          CAPTURE(device);
          CHECK(check(Weights(dtype, 64, 72, 16, has_zeros), 1, by_rows, on(device)));
        }
}

TEST_CASE("sizes that blocks or bytes do not divide, and several vectors") {
  for (const DType dtype : kDTypes)
    for (const bool by_rows : {false, true})
      for (const bool has_zeros : {false, true}) {
        (void)check(Weights(dtype, 37, 21, 16, has_zeros), 1, by_rows, on("cpu"));
        CHECK(check(Weights(dtype, 48, 40, 16, has_zeros), 3, by_rows, on("cpu")));
        CHECK(check(Weights(dtype, 48, 48, 16, has_zeros), 16, by_rows, on("cpu")));
        CHECK_FALSE(check(Weights(dtype, 48, 40, 16, has_zeros), 65, by_rows, on("cpu")));
      }
}
