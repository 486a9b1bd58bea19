// Nodes, builders and orders.
#include <doctest/doctest.h>

#include <set>
#include <thread>

#include "graph/node.hpp"
#include "graph/tensor_impl.hpp"
#include "lathe/error.hpp"
#include "support/graph_nodes.hpp"

using namespace lathe;
using namespace lathe::graph;
using test::f32_input;

namespace {

NodeRef number(double v, Shape shape = {4}) {
  return constant(Scalar::of_float(DType::F32, v), std::move(shape));
}

template <class F> void check_error(ErrorKind kind, const char* begins, F&& f) {
  try {
    f();
    FAIL("no error");
  } catch (const Error& e) {
    CHECK_MESSAGE(e.kind() == kind, e.what());
    CHECK_MESSAGE(std::string(e.what()).rfind(begins, 0) == 0, e.what());
  }
}

std::vector<size_t> sizes(const std::vector<std::vector<NodeRef>>& generations) {
  std::vector<size_t> s;
  for (const auto& g : generations) s.push_back(g.size());
  return s;
}

} // namespace

TEST_CASE("equal expressions are one node") {
  const NodeRef a = f32_input("a"), b = f32_input("b");
  CHECK(binary(Op::Add, a, b) == binary(Op::Add, a, b));
  CHECK(binary(Op::Add, a, b) != binary(Op::Add, b, a));
  CHECK(binary(Op::Add, a, b) != binary(Op::Mul, a, b));
  CHECK(f32_input("a") == a);
  CHECK(f32_input("a", {5}) != a);
  CHECK(input("a", DType::F64, {4}) != a);
  CHECK(reduce(Op::Add, a, {0}) != reduce(Op::Max, a, {0}));
  CHECK(number(0.0) != number(-0.0));
}

TEST_CASE("a realised input never merges") {
  const StorageRef data = Storage::allocate(16);
  const NodeRef a = realised(data, DType::F32, {4}), b = realised(data, DType::F32, {4});
  CHECK(a != b);
  CHECK(std::get<InputAttr>(a->attr).id != std::get<InputAttr>(b->attr).id);
}

TEST_CASE("a node's hash is its structure's, not its history's") {
  size_t first;
  {
    const NodeRef a = f32_input("hash_a", {3, 5});
    first = reduce(Op::Max, binary(Op::Mul, a, a), {1}).hash();
  }
  const NodeRef other = f32_input("unrelated");
  const NodeRef a = f32_input("hash_a", {3, 5});
  CHECK(reduce(Op::Max, binary(Op::Mul, a, a), {1}).hash() == first);
  CHECK(reduce(Op::Max, binary(Op::Mul, a, a), {0}).hash() != first);
}

TEST_CASE("elementwise ops over numbers fold") {
  const NodeRef five = binary(Op::Add, number(2), number(3));
  CHECK(five == number(5));
  CHECK(cast(five, DType::I32) == constant(Scalar::of_int(DType::I32, 5), {4}));
  CHECK(bitcast(number(1), DType::U32) == constant(Scalar::of_int(DType::U32, 0x3F800000), {4}));
  CHECK(binary(Op::CmpLt, number(1), number(2)) == constant(Scalar::of_int(DType::Bool, 1), {4}));
  CHECK(where(binary(Op::CmpLt, number(1), number(2)), number(7), number(8)) == number(7));
}

TEST_CASE("a quotient is a product only where that is the same to the bit") {
  const NodeRef a = f32_input("a");
  CHECK(binary(Op::Div, number(1), number(3)) == number(1.0f / 3.0f));
  CHECK(simplify({binary(Op::Div, a, number(4))})[0] == binary(Op::Mul, a, number(0.25)));
  for (const double divisor : {3.0, 0x1p127, 0.0})
    CHECK(simplify({binary(Op::Div, a, number(divisor))})[0] == binary(Op::Div, a, number(divisor)));
}

TEST_CASE("a function's mark names its rule, and goes when the graph is simplified") {
  const Tensor x = Tensor::input("x", {4});
  const NodeRef y = node_of(x.tanh());
  REQUIRE(y->op == Op::Function);
  CHECK(y->sources[1] == node_of(x));
  CHECK(parse(print({y}))[0] == y);
  CHECK(parse(print({node_of(x.elu(0.5))}))[0] == node_of(x.elu(0.5)));
  for (const NodeRef& n : topological_order(simplify({y}))) CHECK(n->op != Op::Function);
  CHECK(node_of(Tensor::full({4}, 0.5f).tanh())->op == Op::Const);
}

TEST_CASE("casts and copies that do nothing vanish") {
  const NodeRef a = f32_input("a");
  CHECK(cast(a, DType::F32) == a);
  CHECK(bitcast(a, DType::F32) == a);
  CHECK(contiguous(contiguous(a)) == contiguous(a));
  CHECK(contiguous(a) != a);
  CHECK(reduce(Op::Add, a, {}) == a);
  const NodeRef one = f32_input("one", {4, 1});
  CHECK(reduce(Op::Add, one, {1}) == one);
  CHECK(iota(1, DType::I64, {4, 1}) == constant(Scalar::of_int(DType::I64, 0), {4, 1}));
}

TEST_CASE("views compose into one, and the identity vanishes") {
  const NodeRef a = f32_input("m", {3, 4});
  const View turned = View::contiguous({3, 4}).permute({1, 0});
  const NodeRef t = view(a, turned);
  CHECK(t->op == Op::View);
  CHECK(t->shape == Shape{4, 3});
  CHECK(view(t, View::contiguous({4, 3}).permute({1, 0})) == a);
  CHECK(view(a, View::contiguous({3, 4})) == a);
  const NodeRef twice = view(t, View::contiguous({4, 3}).flip({true, false}));
  CHECK(twice->sources[0] == a);
  // A transpose flattened has no single linear view: the stack stays.
  const NodeRef flat = view(t, View::contiguous({12}));
  CHECK(flat->sources[0] == t);
}

TEST_CASE("a view of a number is a number, unless it pads") {
  const NodeRef two = number(2, {1, 3});
  CHECK(view(two, View::contiguous({1, 3}).expand({5, 3})) == number(2, {5, 3}));
  CHECK(view(two, View::contiguous({1, 3}).pad({0, 1}, {0, 1}))->op == Op::View);
  CHECK(view(number(0, {3}), View::contiguous({3}).pad({1}, {1})) == number(0, {5}));
  const Var n("n", 1, 9);
  CHECK(view(constant(Expr(n), DType::I64, {1}), View::contiguous({1}).expand({4})) ==
        constant(Expr(n), DType::I64, {4}));
}

TEST_CASE("a constant expression is a number") {
  CHECK(constant(Expr(6), DType::F32, {4}) == number(6));
  CHECK(std::holds_alternative<Expr>(constant(Var("n", 1, 8).expr() * 2, DType::F32, {4})->attr));
}

TEST_CASE("inference of shape and dtype") {
  const NodeRef a = f32_input("a", {3, 4});
  CHECK(binary(Op::CmpLt, a, a)->dtype == DType::Bool);
  CHECK(reduce(Op::Add, a, {1, 0})->shape == Shape{1, 1});
  CHECK(std::get<ReduceAttr>(reduce(Op::Add, a, {1, 0})->attr).axes == std::vector<int>{0, 1});
  const NodeRef flat = f32_input("flat", {12}), index = input("i", DType::I32, {2, 5});
  CHECK(gather(flat, index)->shape == Shape{2, 5});
  CHECK(scatter(flat, index, f32_input("s", {2, 5}), Op::Add)->shape == Shape{12});
}

TEST_CASE("builders report what does not fit") {
  const NodeRef a = f32_input("a"), b = f32_input("b", {5}), i = input("i", DType::I32, {4});
  check_error(ErrorKind::Shape, "Add:", [&] { binary(Op::Add, a, b); });
  check_error(ErrorKind::DType, "Add:", [&] { binary(Op::Add, a, i); });
  check_error(ErrorKind::DType, "And:", [&] { binary(Op::And, a, a); });
  check_error(ErrorKind::DType, "Sqrt:", [&] { unary(Op::Sqrt, i); });
  check_error(ErrorKind::DType, "Bitcast:", [&] { bitcast(a, DType::I64); });
  check_error(ErrorKind::DType, "Where:", [&] { where(a, a, a); });
  check_error(ErrorKind::Shape,
              "Where:", [&] { where(constant(Scalar::of_int(DType::Bool, 1), {5}), a, a); });
  check_error(ErrorKind::Axis, "Reduce:", [&] { reduce(Op::Add, a, {1}); });
  check_error(ErrorKind::Axis, "Reduce:", [&] { reduce(Op::Add, a, {0, 0}); });
  check_error(ErrorKind::Axis, "Iota:", [&] { iota(2, DType::I32, {4}); });
  check_error(ErrorKind::DType, "Iota:", [&] { iota(0, DType::Bool, {4}); });
  check_error(ErrorKind::Name, "Input:", [&] { f32_input("no name"); });
  check_error(ErrorKind::Shape, "Input:", [&] { f32_input("x", {-1}); });
  check_error(ErrorKind::Limit, "Const:", [&] { number(1, {int64_t{1} << 40, int64_t{1} << 40}); });
  check_error(ErrorKind::Shape, "Gather:", [&] { gather(f32_input("m", {2, 2}), i); });
  check_error(ErrorKind::DType, "Gather:", [&] { gather(a, a); });
  check_error(ErrorKind::Shape, "Scatter:", [&] { scatter(a, i, b, Op::Add); });
}

TEST_CASE("generations are counted from the output") {
  const NodeRef a = f32_input("a"), b = f32_input("b"), c = f32_input("c"), d = f32_input("d");
  CHECK(sizes(generations({binary(Op::Add, a, b)})) == std::vector<size_t>{1, 2});
  CHECK(sizes(generations({binary(Op::Mul, binary(Op::Add, a, b), binary(Op::Add, c, d))})) ==
        std::vector<size_t>{1, 2, 4});
  // An output that another output uses is not in generation 0.
  const NodeRef sum = binary(Op::Add, a, b), twice = binary(Op::Mul, sum, sum);
  CHECK(sizes(generations({sum, twice})) == std::vector<size_t>{1, 1, 2});
}

TEST_CASE("topological order: each node once, sources first, the same every time") {
  const NodeRef a = f32_input("a"), b = f32_input("b");
  const NodeRef sum = binary(Op::Add, a, b), product = binary(Op::Mul, sum, a),
                last = binary(Op::Max, product, sum);
  const auto order = topological_order({last, product});
  CHECK(order.size() == 5);
  std::set<const Node*> seen;
  for (const NodeRef& n : order) {
    for (const NodeRef& s : n->sources) CHECK(seen.count(s.get()) == 1);
    CHECK(seen.insert(n.get()).second);
  }
  CHECK(topological_order({last, product}) == order);
}

TEST_CASE("a chain of a million adds") {
  NodeRef x = f32_input("x");
  const NodeRef one = number(1);
  for (int i = 0; i < 1'000'000; ++i) x = binary(Op::Add, x, one);
  CHECK(topological_order({x}).size() == 1'000'002);
  CHECK(generations({x}).size() == 1'000'001);
  CHECK(simplify({x})[0] == x);
  CHECK(print({x}).size() > 10'000'000);
  const NodeRef rebuilt = rebuild({x}, [](const NodeRef&, NodeRef n) { return n; })[0];
  CHECK(rebuilt == x);
}

TEST_CASE("nodes may be built by several threads at once") {
  std::vector<NodeRef> results(8);
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t)
    threads.emplace_back([&results, t] {
      NodeRef x = f32_input("shared");
      for (int i = 0; i < 2000; ++i) x = binary(Op::Add, binary(Op::Mul, x, x), number(i));
      results[t] = x;
    });
  for (auto& t : threads) t.join();
  for (const NodeRef& r : results) CHECK(r == results[0]);
}
