// A vector times integers that blocks scale: the rule applies where it may, and the sums are those of loops.
#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <cstring>
#include <random>

#include "graph/tensor_impl.hpp"
#include "support/graph_eval.hpp"

using namespace lathe;
using namespace lathe::graph;

namespace {

/// Weights [rows, blocks * block] of scale * q + offset, with one scale and one offset for each block.
struct Weights {
  int64_t rows, blocks, block;
  std::vector<int8_t> q;
  std::vector<float> scale, offset;

  Weights(int64_t r, int64_t b, int64_t n) : rows(r), blocks(b), block(n) {
    std::mt19937 random(static_cast<unsigned>(r * 31 + b * 7 + n));
    for (int64_t k = 0; k < rows * columns(); ++k) q.push_back(static_cast<int8_t>(random()));
    const auto number = [&] { return static_cast<float>(static_cast<int>(random() % 201) - 100) / 64; };
    for (int64_t k = 0; k < rows * blocks; ++k) scale.push_back(number()), offset.push_back(number());
  }
  int64_t columns() const { return blocks * block; }
  double at(int64_t row, int64_t k) const {
    const auto of_block = static_cast<size_t>(row * blocks + k / block);
    return double{scale[of_block]} * q[static_cast<size_t>(row * columns() + k)] + offset[of_block];
  }
  Tensor tensor(bool has_offset) const {
    const Tensor codes = Tensor::from(q, {rows, blocks, block}).cast(DType::F32);
    const Tensor scaled = codes * Tensor::from(scale, {rows, blocks, 1});
    return (has_offset ? scaled + Tensor::from(offset, {rows, blocks, 1}) : scaled)
        .reshape({rows, columns()});
  }
};

/// The graph of the rules, and whether this one was among them.
std::pair<NodeRef, bool> by_blocks(const Tensor& t) {
  bool applied = false;
  const NodeRef after = simplify({node_of(t)}, [&](std::string_view rule, const NodeRef&, const NodeRef&) {
    applied |= rule == "block-product";
  })[0];
  return {after, applied};
}

} // namespace

TEST_CASE("a vector times weights in blocks") {
  for (const auto& [rows, blocks, block] :
       std::vector<std::array<int64_t, 3>>{{5, 3, 8}, {1, 2, 32}, {7, 5, 3}})
    for (const bool has_offset : {false, true}) {
      CAPTURE(rows);
      CAPTURE(blocks);
      CAPTURE(block);
      CAPTURE(has_offset);
      const Weights w(rows, blocks, block);
      const Tensor y = Tensor::input("x", {1, w.columns()}).matmul(w.tensor(has_offset).transpose());
      const auto [node, applied] = by_blocks(y);
      CHECK(applied);
      CHECK(simplify({node})[0] == node);
      std::vector<float> x;
      for (int64_t k = 0; k < w.columns(); ++k) x.push_back(std::sin(static_cast<float>(k)));
      test::Bindings bindings;
      bindings.inputs["x"].resize(x.size() * sizeof(float));
      std::memcpy(bindings.inputs["x"].data(), x.data(), x.size() * sizeof(float));
      const StorageRef data = test::evaluate_graph({node}, bindings)[0];
      const auto* got = static_cast<const float*>(data->data());
      for (int64_t n = 0; n < rows; ++n) {
        double sum = 0, magnitude = 0;
        for (int64_t k = 0; k < w.columns(); ++k) {
          const double weight =
              has_offset ? w.at(n, k) : w.at(n, k) - w.offset[static_cast<size_t>(n * blocks + k / block)];
          sum += weight * x[static_cast<size_t>(k)];
          magnitude += std::abs(weight * x[static_cast<size_t>(k)]);
        }
        CHECK(std::abs(got[n] - sum) <= 1e-6 * magnitude);
      }
    }
}

TEST_CASE("products that stay as they are written") {
  const Weights w(5, 3, 8);
  const auto applies = [](const Tensor& t) { return by_blocks(t).second; };
  const Tensor weights = w.tensor(true).transpose();
  CHECK(applies(Tensor::input("x", {64, 24}).matmul(weights)));
  CHECK_FALSE(applies(Tensor::input("x", {65, 24}).matmul(weights))); // each weight is used many times
  CHECK_FALSE(applies(Tensor::input("x", {Var("n", 1, 9), 24}).matmul(weights)));
  CHECK_FALSE(applies(Tensor::input("x", {1, 24}).matmul(Tensor::input("w", {24, 5}))));
  const Tensor codes = Tensor::from(w.q, {5, 24}).cast(DType::F32);
  CHECK_FALSE(applies(Tensor::input("x", {1, 24}).matmul(codes.transpose()))); // there is no scale
  const Tensor each = codes * Tensor::input("s", {5, 24});                     // a scale for each weight
  CHECK_FALSE(applies(Tensor::input("x", {1, 24}).matmul(each.transpose())));
  const Tensor floats = Tensor::input("v", {5, 24}) * Tensor::input("s", {5, 1}); // no integers
  CHECK_FALSE(applies(Tensor::input("x", {1, 24}).matmul(floats.transpose())));
}
