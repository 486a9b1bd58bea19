// Ranges of integers in the graph, and what is rewritten because of them.
#include <doctest/doctest.h>

#include "graph/tensor_impl.hpp"
#include "graph/value_range.hpp"
#include "lathe/lathe.hpp"

using namespace lathe;
using namespace lathe::graph;

namespace {

bool has_range(const Tensor& x, int64_t lo, int64_t hi) {
  const auto range = range_of(node_of(x));
  return range && range->lo == lo && range->hi == hi;
}
bool is_unbounded(const Tensor& x) { return !range_of(node_of(x)); }

Tensor in(DType d, const Shape& shape = {8}) { return Tensor::input("x", shape, d); }

NodeRef simplified(const Tensor& x) { return simplify({node_of(x)})[0]; }

/// How often an op with this dtype occurs in what the tensor is simplified to.
int count(const Tensor& x, Op op, DType d) {
  int found = 0;
  for (const NodeRef& n : topological_order({simplified(x)})) found += n->op == op && n->dtype == d;
  return found;
}

} // namespace

TEST_CASE("ranges follow dtypes and arithmetic") {
  const Tensor u8 = in(DType::U8), i8 = in(DType::I8);
  CHECK(has_range(u8, 0, 255));
  CHECK(has_range(u8.cast(DType::I64), 0, 255));
  CHECK(has_range(i8.cast(DType::I32) * i8.cast(DType::I32), -16256, 16384));
  CHECK(has_range(-(i8.cast(DType::I32)), -127, 128));
  CHECK(has_range(u8.cast(DType::I32) + 3, 3, 258));
  CHECK(has_range(u8.cast(DType::I32) - u8.cast(DType::I32), -255, 255));
  CHECK(has_range(u8.cast(DType::I64) >> 2, 0, 63));
  CHECK(has_range(in(DType::I64) & 15, 0, 15));
  const auto remainder =
      range_of(simplified(u8.cast(DType::I64) % 10)); // what is left of its sign's cases goes
  CHECK((remainder && remainder->lo == 0 && remainder->hi == 9));
  CHECK(has_range(u8.cast(DType::I32).sum(), 0, 8 * 255));
  CHECK(has_range(u8.pad({{1, 1}}), 0, 255));
  CHECK(has_range((u8.cast(DType::I32) + 3).pad({{1, 1}}), 0, 258));
}

TEST_CASE("what wraps or is not known has the range of its dtype") {
  const Tensor u8 = in(DType::U8);
  CHECK(has_range(u8 + u8, 0, 255));
  CHECK(has_range(in(DType::I32).cast(DType::I8), -128, 127));
  CHECK(is_unbounded(in(DType::I64)));
  CHECK(is_unbounded(in(DType::U64)));
  CHECK(is_unbounded(in(DType::F32)));
  CHECK(is_unbounded(in(DType::I64) % 10)); // of a negative number
  const Tensor i32 = in(DType::I32);
  CHECK(has_range(i32 * i32, INT32_MIN, INT32_MAX));
  CHECK(is_unbounded(i32.cast(DType::I64).cast(DType::U64))); // a negative number is large there
}

TEST_CASE("comparisons that the ranges decide are constants") {
  const Tensor u8 = in(DType::U8), wide = u8.cast(DType::I64);
  CHECK(simplified(wide < 0)->op == Op::Const);
  CHECK(simplified(wide < 256)->op == Op::Const);
  CHECK(simplified(wide != -1)->op == Op::Const);
  CHECK(simplified(wide < 255)->op != Op::Const);
  CHECK(simplified(maximum(wide, -3)) == simplified(wide));
  CHECK(simplified(wide % 300) == simplified(wide));
  CHECK(simplified(wide % 255) != simplified(wide));
  // The checks of an index of bytes into 256 elements go, those into 255 stay.
  const Tensor table = Tensor::input("table", {256}), less = Tensor::input("less", {255});
  CHECK(count(table.take(u8.cast(DType::I32)), Op::Where, DType::I64) == 0);
  CHECK(count(less.take(u8.cast(DType::I32)), Op::Where, DType::I64) != 0);
}

TEST_CASE("sums and arithmetic of small integers take 32 bits") {
  const Tensor u8 = in(DType::U8, {1000}), u16 = in(DType::U16, {64, 1000}), i32 = in(DType::I32, {1000});
  CHECK(count(u8.sum(), Op::Reduce, DType::I32) == 1);
  CHECK(count(u8.sum(), Op::Reduce, DType::U64) == 0);
  CHECK(count(i32.sum(), Op::Reduce, DType::I32) == 0);
  CHECK(count(u16.cast(DType::I32).sum(), Op::Reduce, DType::I64) == 1); // 32 bits hold a row, not all of it
  CHECK(count(u16.cast(DType::I32).sum(), Op::Reduce, DType::I32) == 1);
  CHECK(count((u8.sum() + 2) >> 2, Op::Add, DType::U64) == 0);
  CHECK(count(u8.cast(DType::I64) * 3 + 1, Op::Mul, DType::I64) == 0);
  CHECK(count(i32.cast(DType::I64) * 3, Op::Mul, DType::I64) == 1);
  CHECK(count(in(DType::I64) * 3, Op::Mul, DType::I64) == 1);
}

TEST_CASE("what is narrowed keeps its values at the ends of the ranges") {
  const std::vector<uint8_t> bytes{0, 1, 127, 128, 254, 255};
  const std::vector<int16_t> words{-32768, -32767, -1, 0, 1, 32767};
  const Tensor b = Tensor::from(bytes), w = Tensor::from(words);
  std::vector<int64_t> want;
  for (const int64_t x : bytes) want.push_back((x * 8421504 - 3) >> 1); // 255 * 8421504 is just below 2^31
  CHECK(((b.cast(DType::I64) * 8421504 - 3) >> 1).to_vector<int64_t>() == want);
  want.clear();
  for (const int64_t x : bytes) want.push_back(x * 8421505); // and this is not
  CHECK((b.cast(DType::I64) * 8421505).to_vector<int64_t>() == want);
  want.clear();
  for (const int64_t x : words) want.push_back(x * x * 2);
  CHECK((w.cast(DType::I64) * w.cast(DType::I64) * 2).to_vector<int64_t>() == want);
  for (const int places : {0, 1, 31, 32, 40, 63}) { // of 16 bits, beyond what i32 can shift
    want.clear();
    for (const int64_t x : words) want.push_back(x >> places);
    CHECK((w.cast(DType::I64) >> places).to_vector<int64_t>() == want);
  }
  const std::vector<uint16_t> large(70000, 65535);
  CHECK(Tensor::from(large).sum().item<uint64_t>() == uint64_t{70000} * 65535);
  CHECK(Tensor::from(large).cast(DType::I32).sum().item<int64_t>() == int64_t{70000} * 65535);
}
