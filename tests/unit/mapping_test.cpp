// The graphs that vmap makes: ops that the public API does not build by itself, and how many nodes there are.
#include <doctest/doctest.h>

#include "graph/scan.hpp"
#include "graph/tensor_impl.hpp"
#include "lathe/scan.hpp"
#include "lathe/vmap.hpp"
#include "support/tensor_values.hpp"

using namespace lathe;
using namespace lathe::test;

namespace {

using Tensors = std::vector<Tensor>;

size_t nodes_of(const Tensor& t) { return graph::topological_order({graph::node_of(t)}).size(); }

} // namespace

TEST_CASE("a Transform along inner axes") {
  const graph::SmallMatrix matrix{2, 3, {1, 2, 3, 0, -1, 1}};
  const auto f = [&](const Tensors& x) -> Tensors {
    return {graph::wrap(graph::transform(graph::node_of(x[0]), {{0}, {matrix}}))};
  };
  const Tensor x = random<double>({4, 3, 2}, 1);
  const Tensor got = vmap(f)({x})[0];
  REQUIRE(got.shape() == Shape{4, 2, 2});
  for (int64_t k = 0; k < 4; ++k) check_close(as_doubles(got[k]), as_doubles(f({x[k]})[0]), 1e-12);
}

TEST_CASE("the graph does not grow with the axis, and what is not mapped stays as it is") {
  const Tensor w = Tensor::input("w", {5, 5});
  const auto f = [&](const Tensors& x) -> Tensors { return {x[0].matmul(w.tanh()).softmax(-1)}; };
  const auto mapped = [&](int64_t size) { return vmap(f)({Tensor::input("x", {size, 5})})[0]; };
  CHECK(nodes_of(mapped(3)) == nodes_of(mapped(3000)));
  const Tensor tanh_of_w = w.tanh();
  bool is_there = false;
  for (const graph::NodeRef& node : graph::topological_order({graph::node_of(mapped(3))}))
    is_there |= node == graph::node_of(tanh_of_w);
  CHECK(is_there);
}

TEST_CASE("a recurrence stays one, and only what differs gets the axis") {
  const Tensor x = Tensor::input("x", {7, 4}), rows = Tensor::input("rows", {6, 4});
  const auto f = [&](const Tensors& v) -> Tensors {
    const auto step = [&](const Tensors& s, const Tensors& r) -> ScanStep {
      return {{s[0] + r[0] * v[0], s[1] + r[0]}, {}};
    };
    return scan(step, {Tensor::zeros({4}), Tensor::zeros({4})}, {rows}).state;
  };
  const Tensors made = vmap(f)({x});
  size_t recurrences = 0;
  for (const graph::NodeRef& node : graph::topological_order({graph::node_of(made[0])}))
    if (node->op == Op::Scan) {
      ++recurrences;
      const graph::ScanBody& body = *std::get<graph::ScanAttr>(node->attr).body;
      CHECK(body.parameters[0]->shape == Shape{7, 4});
      CHECK(body.parameters[1]->shape == Shape{4}); // the second state
      CHECK(body.parameters[2]->shape == Shape{4}); // a row
    }
  CHECK(recurrences == 1);
}
