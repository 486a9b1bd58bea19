// Gradients of views: adjoints of every movement and of any linear view, exactly, and what they cost.
#include <doctest/doctest.h>

#include <algorithm>
#include <random>

#include "graph/forms/winograd.hpp"
#include "support/differences.hpp"

using namespace lathe;
using namespace lathe::test;

namespace {

/// The elements of 1, 2, ... that a view of them shows, 0 where it is masked.
std::vector<double> places(const Tensor& view_of_x, int64_t count) {
  std::vector<double> numbers(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) numbers[i] = static_cast<double>(i + 1);
  return values_at({view_of_x}, {numbers})[0];
}

/// The cotangent of x is, exactly, the sum of the small whole numbers in dy over all places that show it.
void check_adjoint(const Tensor& x, const Tensor& y, std::mt19937_64& random) {
  const int64_t count = num_elements(x.shape()).value();
  const std::vector<double> shown = places(y, count);
  std::vector<double> dy(shown.size()), expected(static_cast<size_t>(count));
  for (size_t i = 0; i < dy.size(); ++i) {
    dy[i] = static_cast<double>(static_cast<int64_t>(random() % 17) - 8);
    if (shown[i] > 0) expected[static_cast<size_t>(shown[i]) - 1] += dy[i];
  }
  const Tensor d = gradients(y, {x}, Tensor::from(dy, y.shape()))[0];
  REQUIRE(d.shape() == x.shape());
  CHECK_MESSAGE(values_at({d}, {std::vector<double>(expected.size())})[0] == expected,
                graph::print({graph::node_of(y)}));
}

int64_t pick(std::mt19937_64& random, int64_t low, int64_t high) {
  return low + static_cast<int64_t>(random() % static_cast<uint64_t>(high - low + 1));
}

Tensor random_movement(const Tensor& x, std::mt19937_64& random) {
  const int rank = x.rank();
  const int axis = rank ? static_cast<int>(pick(random, 0, rank - 1)) : 0;
  const int64_t count = num_elements(x.shape()).value();
  const auto size_of = [&](int k) { return x.shape()[k].value(); };
  switch (pick(random, 0, 8)) {
  case 0: {
    Axes order;
    for (int k = 0; k < rank; ++k) order.push_back(k);
    std::shuffle(order.begin(), order.end(), random);
    return x.permute(order);
  }
  case 1: {
    Shape shape;
    for (int64_t left = count; left > 1;) {
      int64_t part = pick(random, 2, left);
      while (left % part) --part;
      if (part < 2) part = left;
      shape.push_back(part);
      left /= part;
    }
    return x.reshape(shape);
  }
  case 2: {
    std::vector<std::pair<int64_t, int64_t>> amounts(rank);
    for (auto& [before, after] : amounts) before = pick(random, 0, 2), after = pick(random, 0, 2);
    return count < 100 ? x.pad(amounts) : x;
  }
  case 3: {
    std::vector<std::pair<Expr, Expr>> part;
    for (int k = 0; k < rank; ++k) {
      const int64_t begin = pick(random, 0, size_of(k) - 1);
      part.emplace_back(begin, pick(random, begin + 1, size_of(k)));
    }
    return x.shrink(part);
  }
  case 4: return rank ? x.flip({axis}) : x;
  case 5: {
    if (!rank) return x;
    std::vector<IndexItem> items(axis, IndexItem(Slice{}));
    items.push_back(Slice{{}, {}, pick(random, 0, 1) ? pick(random, 1, 3) : -pick(random, 1, 3)});
    return x.index(items);
  }
  case 6: return count < 60 ? x.unsqueeze(axis).repeat({pick(random, 2, 3)}) : x;
  case 7: {
    if (!rank || count > 60) return x;
    Shape wider = x.shape();
    wider.insert(wider.begin() + axis, Expr(pick(random, 2, 3)));
    return x.unsqueeze(axis).expand(wider);
  }
  default: {
    if (!rank || count > 100) return x;
    const int64_t window = pick(random, 1, size_of(axis));
    const int64_t dilation =
        window > 1 ? pick(random, 1, std::max<int64_t>(1, (size_of(axis) - 1) / (window - 1))) : 1;
    return x.window(axis, window, pick(random, 1, 3), dilation);
  }
  }
}

} // namespace

TEST_CASE("adjoints of movements, exactly") {
  std::mt19937_64 random(11);
  for (int round = 0; round < 1500; ++round) {
    Shape shape;
    for (int64_t rank = pick(random, 1, 3); rank > 0; --rank) shape.push_back(pick(random, 1, 5));
    const Tensor x = Tensor::input("x0", shape, DType::F64);
    Tensor y = x;
    for (int64_t moves = pick(random, 1, 4); moves > 0; --moves) y = random_movement(y, random);
    check_adjoint(x, y, random);
  }
}

TEST_CASE("adjoints of any linear view, exactly") {
  std::mt19937_64 random(12);
  for (int round = 0; round < 1500; ++round) {
    Shape source;
    for (int64_t rank = pick(random, 1, 3); rank > 0; --rank) source.push_back(pick(random, 1, 6));
    const Tensor x = Tensor::input("x0", source, DType::F64);
    const int64_t count = num_elements(source).value();
    Shape shape;
    std::vector<Expr> strides;
    std::vector<Interval> mask;
    int64_t low = 0, high = 0; // of the offset inside the mask
    for (int64_t rank = pick(random, 1, 3); rank > 0; --rank) {
      const int64_t size = pick(random, 1, 4), begin = pick(random, 0, size - 1),
                    end = pick(random, begin + 1, size);
      const bool masked = pick(random, 0, 2) == 0;
      const Interval in = masked ? Interval{begin, end} : Interval{0, size};
      const int64_t first = masked ? begin : 0, last = masked ? end - 1 : size - 1;
      int64_t stride = pick(random, -4, 6);
      const auto fits = [&](int64_t s) { return high - low + std::abs(s) * (last - first) < count; };
      if (!fits(stride)) stride = fits(1) ? 1 : 0;
      low += std::min(stride * first, stride * last);
      high += std::max(stride * first, stride * last);
      shape.push_back(size);
      strides.push_back(stride);
      mask.push_back(in);
    }
    const int64_t offset = pick(random, -low, count - 1 - high);
    check_adjoint(x, graph::wrap(graph::view(graph::node_of(x), View(shape, strides, offset, mask))), random);
  }
}

TEST_CASE("cheap views have cheap adjoints") {
  const auto ops = [](const Tensor& y, const Tensor& x, Op op) {
    const Tensor d = gradients(y, {x}, Tensor::input("dy", y.shape()))[0];
    size_t count = 0;
    for (const graph::NodeRef& n : graph::topological_order({graph::node_of(d)})) count += n->op == op;
    return count;
  };
  const Tensor x = Tensor::input("x", {6, 10});
  const Var n("n", 2, 50);
  const Tensor open = Tensor::input("x", {n, 10});
  const std::pair<const Tensor&, Tensor> moved[] = {
      {x, x.transpose()},           {x, x.reshape({4, 15})},
      {x, x.pad({{1, 2}, {0, 3}})}, {x, x.shrink({{2, 5}, {1, 9}})},
      {x, x.flip({0, 1})},          {x, x.index({Slice{{}, {}, 2}, Slice{{}, {}, -3}})},
      {x, x.window(1, 2, 2)},       {x, x.reshape({6, 2, 5}).permute({1, 0, 2})},
      {open, open.transpose()},     {open, open.pad({{1, 2}, {0, 3}})},
      {open, open.flip({0})}};
  for (const auto& [from, y] : moved) {
    CAPTURE(graph::print({graph::node_of(y)}));
    CHECK(ops(y, from, Op::Scatter) == 0);
    CHECK(ops(y, from, Op::Reduce) == 0);
  }
  // A transposed matrix' cotangent is one view, and windows' is one sum.
  CHECK(ops(x.transpose(), x, Op::View) == 1);
  CHECK(ops(x.window(1, 3), x, Op::Reduce) == 1);
  CHECK(ops(x.window(1, 3), x, Op::Scatter) == 0);
  CHECK(ops(open.window(0, 2), open, Op::Scatter) == 0);
}

TEST_CASE("views that follow no dimension, or may be empty, add up at computed indices") {
  const Var n("n", 3, 40);
  const auto view_of = [](Expr size, int form) {
    switch (form) {
    case 0: return View({size, 2}, {size + 1, 0}, 0, {{1, size - 1}, {0, 2}}); // the diagonal, twice
    case 1: return View({size, 2}, {-1 - size, 0}, size * size - 1, {{0, size}, {1, 2}}); // and backwards
    case 2: return View({size}, {1}, size, {{2, size - 1}});                              // none of three
    default: return View({size, size - 1}, {size - 1, 1}, 1, {});                         // rows that overlap
    }
  };
  for (int form = 0; form < 4; ++form)
    for (const int64_t rows : {3, 4, 7}) {
      CAPTURE(form);
      CAPTURE(rows);
      const auto derivative = [&](Expr size) {
        const Tensor x = Tensor::input("x0", {size, size}, DType::F64);
        const Tensor y = graph::wrap(graph::view(graph::node_of(x), view_of(size, form)));
        const Tensor weights = Tensor::iota(y.shape(), 0, DType::F64) + 3.0;
        return gradients(y, {x}, weights)[0];
      };
      const std::vector<double> x(static_cast<size_t>(rows * rows));
      const Tensor open = derivative(n);
      size_t scatters = 0;
      for (const graph::NodeRef& m : graph::topological_order({graph::node_of(open)}))
        scatters += m->op == Op::Scatter;
      CHECK(scatters == 1);
      Bindings bindings;
      bindings.bind("x0", x);
      bindings.sizes["n"] = rows;
      const StorageRef found = evaluate_graph({graph::node_of(open)}, bindings)[0];
      const auto* p = static_cast<const double*>(found->data());
      CHECK(std::vector<double>(p, p + x.size()) == values_at({derivative(rows)}, {x})[0]);
    }
}

TEST_CASE("a convolution's gradients are sums of products, which the search knows as convolutions") {
  const Tensor x = Tensor::input("x", {2, 3, 9, 8}), w = Tensor::input("w", {4, 3, 3, 3});
  const Tensor y = x.conv2d(w, {}, {.padding = {1}});
  for (const Tensor& d : gradients(y, {x, w}, Tensor::input("dy", y.shape()))) {
    size_t sums = 0, scatters = 0, convolutions = 0;
    for (const graph::NodeRef& n : graph::topological_order({graph::node_of(d)})) {
      sums += n->op == Op::Reduce;
      scatters += n->op == Op::Scatter;
      convolutions += n->op == Op::Reduce && graph::read_convolution(n);
    }
    CHECK(sums == 1);
    CHECK(scatters == 0);
    CHECK(convolutions == (d.shape() == x.shape() ? 1 : 0)); // by the weights it has as many taps as dy
  }
}

TEST_CASE("sizes that are variables") {
  const Var n("n", 3, 40);
  const auto build = [](Expr size) {
    const Tensor x = Tensor::input("x0", {size, 4}, DType::F64);
    const Tensor y =
        x.transpose().window(1, 3).square().sum(-1).pad({{1, 0}, {0, 2}}).flip({1}) * x.mean({0}).sin().sum();
    return gradients(y, {x})[0];
  };
  std::mt19937_64 random(5);
  for (const int64_t rows : {3, 4, 7, 11}) {
    const std::vector<double> x = random_numbers(random, static_cast<size_t>(rows) * 4, -1, 1);
    const std::vector<double> expected = values_at({build(rows)}, {x})[0];
    Bindings bindings;
    bindings.bind("x0", x);
    bindings.sizes["n"] = rows;
    const StorageRef found = evaluate_graph({graph::node_of(build(n))}, bindings)[0];
    const auto* p = static_cast<const double*>(found->data());
    REQUIRE(found->bytes() == expected.size() * sizeof(double));
    for (size_t i = 0; i < expected.size(); ++i) CHECK(p[i] == doctest::Approx(expected[i]).epsilon(1e-12));
  }
}
