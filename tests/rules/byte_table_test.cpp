// Functions of one byte become tables: the rule applies where it may, and every value keeps its bits.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "graph/byte_table.hpp"
#include "graph/tensor_impl.hpp"
#include "support/graph_eval.hpp"

using namespace lathe;
using namespace lathe::graph;

namespace {

constexpr int kRows = 9, kColumns = 256; // all bytes, several times

std::vector<unsigned char> every_byte() {
  std::vector<unsigned char> bytes(kRows * kColumns);
  for (size_t k = 0; k < bytes.size(); ++k) bytes[k] = static_cast<unsigned char>(k * 7 + k / 256);
  return bytes;
}

Tensor bytes_input(const std::string& name, DType dtype) {
  return Tensor::input(name, {kRows, kColumns}, dtype);
}

/// Dequantises, applies some functions, and quantises again.
Tensor requantised(const Tensor& x, double scale, DType to) {
  const Tensor real = (x.cast(DType::F32) - 11) * scale;
  const Tensor y = real.sigmoid() * real + 0.25;
  return (y / 0.03).round().clamp(-100, 120).cast(to);
}

int tables_in(const NodeRef& root) {
  int count = 0;
  for (const NodeRef& n : topological_order({root}))
    count += n->op == Op::Gather && n->sources[0]->shape == Shape{256};
  return count;
}
/// Elementwise nodes of all of the bytes; casts of indices aside.
int large_operations(const NodeRef& root) {
  int count = 0;
  for (const NodeRef& n : topological_order({root}))
    count += is_elementwise(n->op) && n->op != Op::Cast && n->op != Op::Bitcast &&
             num_elements(n->shape).value() > 256;
  return count;
}

/// The simplified graph; its values are those of the graph as it was written.
NodeRef by_table(const Tensor& t) {
  const NodeRef before = node_of(t), after = simplify({before})[0];
  test::Bindings bindings;
  bindings.bind("x", every_byte());
  auto others = every_byte();
  std::reverse(others.begin(), others.end());
  bindings.bind("z", others);
  bindings.bind("scale", std::vector<float>{0.37f});
  const StorageRef want = test::evaluate_graph({before}, bindings)[0],
                   got = test::evaluate_graph({after}, bindings)[0];
  CHECK(want->bytes() == got->bytes());
  CHECK(std::memcmp(std::as_const(*want).data(), std::as_const(*got).data(), want->bytes()) == 0);
  CHECK(simplify({after})[0] == after);
  return after;
}

} // namespace

TEST_CASE("a long function of a byte is a table, signed or not") {
  for (const DType from : {DType::U8, DType::I8})
    for (const DType to : {DType::U8, DType::I8}) {
      const NodeRef y = by_table(requantised(bytes_input("x", from), 0.04, to));
      CHECK(y->op == Op::Gather);
      CHECK(y->dtype == to);
      CHECK(tables_in(y) == 1);
      CHECK(large_operations(y) == 0);
    }
}

TEST_CASE("a table of a table's results is one table, whose entries are looked up") {
  const Tensor x = bytes_input("x", DType::U8);
  const NodeRef y = by_table(requantised(requantised(x, 0.04, DType::U8), 0.05, DType::I8));
  CHECK(y->op == Op::Gather);
  CHECK(large_operations(y) == 0);
  int large = 0;
  for (const NodeRef& n : topological_order({y}))
    large += n->op == Op::Gather && num_elements(n->shape).value() > 256;
  CHECK(large == 1);
}

TEST_CASE("functions of one byte in several ways meet in one table") {
  const Tensor x = bytes_input("x", DType::U8);
  const Tensor half = requantised(x, 0.01, DType::U8);
  const Tensor y = (half.cast(DType::I32) * x.cast(DType::I32) / 256).cast(DType::U8) + half;
  CHECK(large_operations(by_table(requantised(y, 0.02, DType::U8))) == 0);
}

TEST_CASE("a number that the program is fed is part of the table") {
  const Tensor scale = Tensor::input("scale", {1}, DType::F32);
  const Tensor x = bytes_input("x", DType::U8);
  const Tensor y = ((x.cast(DType::F32) * scale).tanh() * 100).sin().round().cast(DType::I8);
  CHECK(large_operations(by_table(y)) == 0);
}

TEST_CASE("what two tensors make is the byte that a table begins at") {
  const Tensor x = bytes_input("x", DType::U8), z = bytes_input("z", DType::U8);
  const Tensor sum = x + z;
  const NodeRef y = by_table(requantised(sum, 0.04, DType::U8));
  CHECK(tables_in(y) == 1);
  CHECK(large_operations(y) == 1); // the sum
}

TEST_CASE("other functions stay as they are") {
  const Tensor x = bytes_input("x", DType::U8), z = bytes_input("z", DType::U8);
  CHECK(tables_in(by_table(x + 3)) == 0); // cheaper than a look-up
  CHECK(tables_in(by_table(requantised(x, 0.04, DType::I32))) == 0);
  CHECK(tables_in(by_table((x.cast(DType::F32).exp() + z.cast(DType::F32).exp()).log().cast(DType::U8))) ==
        0);
  // Few elements: a table has as many.
  const Tensor few = x.shrink({{0, 4}, {0, 256}});
  CHECK(tables_in(by_table(requantised(few, 0.04, DType::U8))) == 0);
  // Numbers that differ along an axis.
  const Tensor by_column = requantised(x, 0.04, DType::F32) * Tensor::arange(kColumns).cast(DType::F32);
  CHECK(tables_in(by_table(by_column.cast(DType::U8))) == 0);
}
