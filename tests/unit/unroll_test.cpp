// Recurrences written out step by step give what they give step by step, whichever steps run.
#include <doctest/doctest.h>

#include <random>

#include "graph/tensor_impl.hpp"
#include "graph/unroll.hpp"
#include "lathe/gradient.hpp"
#include "lathe/scan.hpp"
#include "support/errors.hpp"
#include "support/graph_eval.hpp"

using namespace lathe;
using namespace lathe::test;

namespace {

using Tensors = std::vector<Tensor>;

bool has_recurrence(const std::vector<graph::NodeRef>& nodes) {
  for (const graph::NodeRef& node : graph::topological_order(nodes))
    if (node->op == Op::Scan) return true;
  return false;
}

/// Whole numbers, so that sums are exact in any order.
void check_same(const Tensors& tensors, uint64_t seed) {
  std::vector<graph::NodeRef> nodes;
  for (const Tensor& t : tensors) nodes.push_back(graph::node_of(t));
  REQUIRE(has_recurrence(nodes));
  const auto written_out = graph::unrolled(nodes, "test");
  CHECK_FALSE(has_recurrence(written_out));
  std::mt19937_64 random(seed);
  Bindings bindings;
  std::vector<double> x(3), rows(15);
  for (auto* values : {&x, &rows})
    for (double& v : *values) v = static_cast<double>(random() % 5) - 2;
  bindings.bind("x", x);
  bindings.bind("rows", rows);
  const auto want = evaluate_graph(nodes, bindings), got = evaluate_graph(written_out, bindings);
  for (size_t k = 0; k < want.size(); ++k) {
    REQUIRE(got[k]->bytes() == want[k]->bytes());
    const auto *a = static_cast<const double*>(got[k]->data()),
               *b = static_cast<const double*>(want[k]->data());
    for (size_t i = 0; i < want[k]->bytes() / sizeof(double); ++i) CHECK(a[i] == b[i]);
  }
}

} // namespace

TEST_CASE("loops that end by their data and their derivatives") {
  const Tensor x = Tensor::input("x", {3}, DType::F64), rows = Tensor::input("rows", {5, 3}, DType::F64);
  for (const double limit : {-100.0, 3.0, 60.0, 1e9}) {
    CAPTURE(limit);
    const auto is_low = [&](const Tensors& s) { return s[0].abs().sum() < limit; };
    const auto next = [&](const Tensors& s) -> Tensors { return {s[0] * 2.0 + x + s[1], s[1] + 1.0}; };
    const Tensors made = while_loop(is_low, next, {rows.sum(0), Tensor::ones({}, DType::F64)}, 6);
    const Tensor y = (made[0] * made[0]).sum();
    for (uint64_t seed = 0; seed < 4; ++seed)
      check_same({made[0], made[1], gradients(y, {x})[0], gradients(y, {rows})[0]}, seed);
  }
}

TEST_CASE("recurrences over rows, in both directions") {
  const Tensor x = Tensor::input("x", {3}, DType::F64), rows = Tensor::input("rows", {5, 3}, DType::F64);
  for (const bool backward : {false, true}) {
    const auto step = [&](const Tensors& s, const Tensors& r) -> ScanStep {
      return {{s[0] - r[0]}, {s[0] * r[0] + x}};
    };
    const Scanned made = scan(step, {x}, {rows}, {{}, backward});
    check_same({made.state[0], made.stacked[0], gradients(made.stacked[0].sum(), {rows})[0]}, 1);
  }
}

TEST_CASE("a number of steps that is too large or not fixed") {
  const auto next = [](const Tensors& s) -> Tensors { return {s[0] + 1.0}; };
  const auto is_low = [](const Tensors& s) { return s[0] < 1e9; };
  for (const Expr most : {Expr(5000), Var("n", 0, 9).expr()}) {
    const Tensor made = while_loop(is_low, next, {Tensor::input("x", {}, DType::F64)}, most)[0];
    check_error(ErrorKind::Limit, "emit", [&] { (void)graph::unrolled({graph::node_of(made)}, "emit"); });
  }
}
