// Which subgraphs of realised tensors are computed at compile time, and how often. A stand-in computes them.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "graph/folding/constants.hpp"
#include "graph/node.hpp"
#include "graph/tensor_impl.hpp"

using namespace lathe;
using namespace lathe::graph;

namespace {

std::vector<NodeRef> asked; // by the pass, in order

/// Notes what it is asked for, and fills each value with 7s.
std::vector<StorageRef> evaluate(const std::vector<NodeRef>& nodes) {
  std::vector<StorageRef> values;
  for (const NodeRef& n : nodes) {
    asked.push_back(n);
    const size_t count = static_cast<size_t>(num_elements(n->shape).value());
    values.push_back(Storage::allocate(count * static_cast<size_t>(size_of(n->dtype))));
    std::memset(values.back()->data(), 7, values.back()->bytes());
  }
  return values;
}

NodeRef data(const Shape& shape, DType dtype = DType::F32) {
  const size_t bytes = static_cast<size_t>(num_elements(shape).value() * size_of(dtype));
  return realised(Storage::allocate(bytes), dtype, shape);
}
Tensor tensor(const Shape& shape, DType dtype = DType::F32) { return wrap(data(shape, dtype)); }

bool is_data(const NodeRef& n) { return n->op == Op::Input && std::get<InputAttr>(n->attr).data; }

/// The folded program of one output; what was computed for it is in `asked`.
NodeRef folded(const Tensor& t) {
  asked.clear();
  return fold_constants(simplify({node_of(t)}), evaluate)[0];
}

} // namespace

TEST_CASE("without a function that computes values nothing is replaced") {
  const NodeRef y = node_of(tensor({4, 3}) + tensor({4, 3}));
  CHECK(fold_constants({y}, nullptr)[0] == y);
}

TEST_CASE("the topmost constant node is computed, and the rest of the program reads it") {
  const Tensor x = Tensor::input("x", {4, 3}), w = tensor({4, 3}), v = tensor({4, 3});
  const NodeRef y = folded(x * ((w + v) * w));
  REQUIRE(asked.size() == 1);
  CHECK(asked[0]->op == Op::Mul);
  REQUIRE(y->op == Op::Mul);
  CHECK((is_data(y->sources[0]) || is_data(y->sources[1])));
  CHECK(topological_order({y}).size() == 3); // x, the value, the product
}

TEST_CASE("single numbers are computed without asking, whoever else reads what they are made of") {
  const auto number = [](float value) { return Tensor::from({value}).realise(); };
  const Tensor x = Tensor::input("x", {4, 3}), scale = number(3), zero = number(5);
  const Tensor inverse = (scale.cast(DType::F64) + 1).reciprocal().cast(DType::F32);
  const NodeRef y = folded(x * scale * inverse + (scale - zero).sqrt().reshape({}) + zero);
  CHECK(asked.empty());
  std::vector<float> numbers;
  for (const NodeRef& n : topological_order({y})) {
    CHECK((n->op == Op::Input || n->op == Op::View || n->shape == Shape{4, 3}));
    if (is_data(n)) numbers.push_back(*static_cast<const float*>(std::get<InputAttr>(n->attr).data->data()));
  }
  std::sort(numbers.begin(), numbers.end(), [](float a, float b) { return a < b || (b != b && a == a); });
  REQUIRE(numbers.size() == 4);
  CHECK(numbers[0] == 0.25f);
  CHECK(numbers[1] == 3);
  CHECK(numbers[2] == 5);
  CHECK(std::isnan(numbers[3])); // the root of -2
}

TEST_CASE("views alone are not computed, and stay above what is") {
  const Tensor x = Tensor::input("x", {3, 4}), w = tensor({4, 3});
  const NodeRef plain = folded(x + w.transpose());
  CHECK(asked.empty());
  CHECK(plain == simplify({node_of(x + w.transpose())})[0]);
  const NodeRef seen = folded(x + (w * w).transpose());
  REQUIRE(asked.size() == 1);
  CHECK(asked[0]->op == Op::Mul);
  REQUIRE(seen->sources.size() == 2);
  const NodeRef& view = seen->sources[0]->op == Op::View ? seen->sources[0] : seen->sources[1];
  REQUIRE(view->op == Op::View);
  CHECK(is_data(view->sources[0]));
}

TEST_CASE("a copy in another order is something computed") {
  const Tensor x = Tensor::input("x", {3, 4}), w = tensor({4, 3});
  folded(x + w.transpose().contiguous());
  CHECK(asked.size() == 1);
}

TEST_CASE("integers of 8 bits that a program widens are stored as they are") {
  const Tensor x = Tensor::input("x", {3, 4}, DType::I32), w = tensor({4, 3}, DType::U8);
  const Tensor moved = (w ^ Tensor::full({}, uint8_t{128})).bitcast(DType::I8).contiguous();
  folded(x + moved.transpose().cast(DType::I32));
  REQUIRE(asked.size() == 1);
  CHECK(asked[0]->dtype == DType::I8);
  folded(x + moved.transpose().cast(DType::I32).sum(0)); // sums of them are values of their own
  REQUIRE(asked.size() == 1);
  CHECK(asked[0]->op == Op::Reduce);
}

TEST_CASE("nothing that a named input or a shape variable takes part in is constant") {
  const Var n("n", 1, 16);
  const Tensor w = tensor({4}), x = Tensor::input("x", {4}), s = Tensor::input("s", {n});
  folded((w + x) * x);
  CHECK(asked.empty());
  folded(Tensor::full({n}, 2.0) * s + Tensor::arange(0, 1).sum());
  CHECK(asked.empty());
}

TEST_CASE("what is larger than its sources is computed each time, unless that is dear") {
  const Tensor x = Tensor::input("x", {64, 64});
  const Tensor a = tensor({64, 1}), b = tensor({1, 64});
  folded(x * (a + b)); // 4096 from 128 elements, one addition each
  CHECK(asked.empty());
  const NodeRef dear = folded(x * (a + b).sin());
  CHECK(asked.size() == 1);
  CHECK(topological_order({dear}).size() == 3);
  // Halves stay halves: the cast is done where they are read.
  folded(x * tensor({64, 64}, DType::F16).cast(DType::F32));
  CHECK(asked.empty());
  // A sum is dear, and its result small; the cheap rest around it stays.
  folded(Tensor::input("wide", {64, 1024}) * (tensor({64, 64}).sum(1, true) + tensor({1, 1024})));
  REQUIRE(asked.size() == 1);
  CHECK(asked[0]->op == Op::Reduce);
}

TEST_CASE("numbers and indices alone: a table of sines is computed once, a mask each time") {
  const Tensor x = Tensor::input("x", {64});
  folded(x + Tensor::arange(0, 64).cast(DType::F32).sin());
  CHECK(asked.size() == 1);
  folded(where(Tensor::arange(0, 64) < 32, x, x * 2));
  CHECK(asked.empty());
}

TEST_CASE("two programs share a value as long as one of them lives") {
  const Tensor x = Tensor::input("x", {8}), w = tensor({8}), v = tensor({8});
  NodeRef first = folded(x + w * w);
  CHECK(asked.size() == 1);
  const NodeRef second = folded((x + w * w) * x);
  CHECK(asked.empty());
  const auto value = [](const NodeRef& root) {
    StorageRef found;
    for (const NodeRef& n : topological_order({root}))
      if (is_data(n)) found = std::get<InputAttr>(n->attr).data;
    return found;
  };
  CHECK(value(first) == value(second));
  first = folded(x + v * v); // of the same form, but another tensor
  CHECK(asked.size() == 1);
  CHECK(value(first) != value(second));
  first = {};
  folded(x - v * v);
  CHECK(asked.size() == 1); // no one held it
}

TEST_CASE("what costs a compilation too much is left to the runs") {
  const Tensor x = Tensor::input("x", {});
  const auto is_folded = [&](const Tensor& constant, int64_t bytes) {
    asked.clear();
    (void)fold_constants(simplify({node_of(constant * x)}), evaluate, bytes);
    return !asked.empty();
  };
  const Tensor small = Tensor::randn({1000}, 1), w = tensor({1000, 1000});
  CHECK(is_folded(small, 4000));
  CHECK_FALSE(is_folded(small, 3999));                   // larger than allowed, and made of nothing
  CHECK(is_folded(w.transpose() + w, 1000));             // as large as what it is made of
  CHECK(is_folded(Tensor::rand({4000}, 1).sum(), 8000)); // 32,000 bytes of u64 on the way
  CHECK_FALSE(is_folded(Tensor::rand({4000}, 1).sum(), 7999));
  const int64_t all = INT64_MAX;
  CHECK(is_folded(Tensor::rand({1 << 20}, 1).sum(), all));
  CHECK_FALSE(is_folded(Tensor::rand({1 << 30}, 1).sum(), all)); // too many operations
  CHECK(is_folded(w.matmul(w.transpose()), all));                // as many, but of tensors that the user gave
}

TEST_CASE("a long chain of constants") {
  const Tensor x = Tensor::input("x", {2});
  Tensor chain = tensor({2});
  for (int k = 0; k < 100000; ++k) chain = chain * chain + chain;
  asked.clear();
  const NodeRef y = fold_constants({node_of(x + chain)}, evaluate)[0];
  CHECK(asked.size() == 1);
  CHECK(topological_order({y}).size() == 3);
}
