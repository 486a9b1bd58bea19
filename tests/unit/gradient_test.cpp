// What gradients() says of what, its errors, and the choices it makes where there is no derivative.
#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <set>

#include "graph/gradient.hpp"
#include "graph/tensor_impl.hpp"
#include "lathe/gradient.hpp"
#include "lathe/substitute.hpp"
#include "support/graph_eval.hpp"

using namespace lathe;

namespace {

const bool registered = (graph::set_realiser(&test::realise_by_evaluation), true);

using Floats = std::vector<float>;

template <class F> void check_error(ErrorKind kind, const std::string& begins, F&& f) {
  try {
    f();
    FAIL("no error");
  } catch (const Error& e) {
    CHECK_MESSAGE(e.kind() == kind, e.what());
    CHECK_MESSAGE(std::string(e.what()).rfind(begins, 0) == 0, e.what());
  }
}

} // namespace

TEST_CASE("every primitive of a graph has one row in the table") {
  std::multiset<Op> rows;
  for (const graph::GradientRule& rule : graph::gradient_rules()) rows.insert(rule.op);
  for (int k = 0; k < op_count(); ++k) {
    const Op op = static_cast<Op>(k);
    CAPTURE(to_string(op));
    // A recurrence hands on the cotangents of all its results at once: gradient_scan.hpp.
    const bool has_row = info(op).kind != OpKind::Lowered && op != Op::Scan;
    CHECK(rows.count(op) == (has_row ? 1 : 0));
  }
}

TEST_CASE("of each input, and zeros for what y does not depend on") {
  const Tensor a = Tensor::from({1.f, 2.f, 3.f}), b = Tensor::from({4.f, 5.f, 6.f});
  const Tensor c = Tensor::from({1.0, 2.0});
  const auto d = gradients((a * b).sum(), {a, b, c, a});
  REQUIRE(d.size() == 4);
  CHECK(d[0].to_vector<float>() == Floats{4, 5, 6});
  CHECK(d[1].to_vector<float>() == Floats{1, 2, 3});
  CHECK(d[2].dtype() == DType::F64);
  CHECK(d[2].to_vector<double>() == std::vector<double>{0, 0});
  CHECK(d[3].to_vector<float>() == Floats{4, 5, 6});
  CHECK(gradients(a, {}).empty());
}

TEST_CASE("y by itself, with and without a cotangent") {
  const Tensor a = Tensor::from({1.f, 2.f}), dy = Tensor::from({5.f, -3.f});
  CHECK(gradients(a, {a})[0].to_vector<float>() == Floats{1, 1});
  CHECK(gradients(a, {a}, dy)[0].to_vector<float>() == Floats{5, -3});
  CHECK(gradients(a * a, {a}, dy)[0].to_vector<float>() == Floats{10, -12});
}

TEST_CASE("by tensors on the way, all of whose uses count") {
  const Tensor a = Tensor::from({2.f, 3.f});
  const Tensor h = a * a, y = h * h + h;
  const auto d = gradients(y, {a, h});
  CHECK(d[1].to_vector<float>() == Floats{9, 19});
  CHECK(d[0].to_vector<float>() == Floats{36, 114});
}

TEST_CASE("nothing flows through integers, comparisons and bits") {
  const Tensor a = Tensor::from({1.5f, 2.5f});
  for (const Tensor& y : {a.cast(DType::I32).cast(DType::F32), (a < a.sum()).cast(DType::F32), a.trunc(),
                          a.round(), a.bitcast(DType::I32).bitcast(DType::F32) * 0.0})
    CHECK(gradients(y, {a})[0].to_vector<float>() == Floats{0, 0});
}

TEST_CASE("ties are shared evenly") {
  const Tensor a = Tensor::from({1.f, 2.f, 2.f, 0.f}), b = Tensor::from({1.f, 3.f, 1.f, 0.f});
  const auto d = gradients(maximum(a, b), {a, b});
  CHECK(d[0].to_vector<float>() == Floats{0.5, 0, 1, 0.5});
  CHECK(d[1].to_vector<float>() == Floats{0.5, 1, 0, 0.5});
  CHECK(gradients(a.max(), {a})[0].to_vector<float>() == Floats{0, 0.5, 0.5, 0});
  CHECK(gradients(a.min(), {a})[0].to_vector<float>() == Floats{0, 0, 0, 1});
  CHECK(gradients(a.relu(), {a})[0].to_vector<float>() == Floats{1, 1, 1, 0});
  // Of a scattered maximum the base shares, too.
  const Tensor index = Tensor::from({0, 0, 3, 9});
  const Tensor y =
      graph::wrap(graph::scatter(graph::node_of(a), graph::node_of(index), graph::node_of(b - 0.0), Op::Max));
  const auto s = gradients(y, {a, b});
  CHECK(s[0].to_vector<float>() == Floats{0, 1, 1, 0});
  CHECK(s[1].to_vector<float>() == Floats{0, 1, 1, 0});
}

TEST_CASE("half precision adds up in f32 and gives half precision") {
  const Tensor x = Tensor::from({1.f}).cast(DType::F16);
  for (const Tensor& y : {x.expand({5000}).sum(), x.take(Tensor::zeros({5000}, DType::I64))}) {
    const Tensor d = gradients(y, {x})[0];
    CHECK(d.dtype() == DType::F16);
    CHECK(d.cast(DType::F32).item<float>() == 5000);
  }
}

TEST_CASE("realised tensors") {
  const Tensor w = Tensor::from({1.f, 2.f});
  const Tensor h = w * w, y = (h * h).sum();
  CHECK(h.to_vector<float>() == Floats{1, 4}); // h is data now; y was built before
  auto d = gradients(y, {w, h});
  CHECK(d[0].to_vector<float>() == Floats{4, 32});
  CHECK(d[1].to_vector<float>() == Floats{2, 8});
  // What is built on it afterwards begins there.
  const Tensor z = (h * 3.0).sum() + y;
  d = gradients(z, {w, h});
  CHECK(d[0].to_vector<float>() == Floats{4, 32});
  CHECK(d[1].to_vector<float>() == Floats{5, 11});
  const Tensor late = (h * 3.0).sum();
  CHECK(gradients(late, {w})[0].to_vector<float>() == Floats{0, 0});
}

TEST_CASE("views as xs") {
  const Tensor a = Tensor::from({1.f, 2.f, 3.f, 4.f}), x = a.reshape({2, 2});
  CHECK(gradients(x * x, {x})[0].to_vector<float>() == Floats{2, 4, 6, 8});
  // A view of x is a view of a.
  const char* text = "gradients: xs[0] is a view of a tensor";
  check_error(ErrorKind::Value, text, [&] { gradients(x.transpose() * 2.0, {x}); });
  check_error(ErrorKind::Value, text, [&] { gradients(x * a.reshape({2, 2}).flip({0}), {x}); });
  const Tensor own = x.contiguous();
  CHECK(gradients(own.transpose() * own, {own})[0].to_vector<float>() == Floats{2, 6, 4, 8});
}

TEST_CASE("errors") {
  const Tensor a = Tensor::from({1.f, 2.f}), i = Tensor::from({1, 2});
  check_error(ErrorKind::DType, "gradients: y is i32[2], expected a float", [&] { gradients(i * i, {a}); });
  check_error(ErrorKind::DType, "gradients: xs[1] is i32[2], expected a float", [&] {
    gradients(a * i, {a, i});
  });
  check_error(ErrorKind::DType, "gradients: dy is f64[2] for y f32[2]",
              [&] { gradients(a * a, {a}, a.cast(DType::F64)); });
  check_error(ErrorKind::Shape, "gradients: dy is f32[] for y f32[2]",
              [&] { gradients(a * a, {a}, a.sum()); });
  check_error(ErrorKind::Value, "gradients: xs[0] is a constant",
              [&] { gradients(a * 2.0, {Tensor::full({2}, 2.f)}); });
  const Tensor y = a * a;
  y.realise();
  check_error(ErrorKind::Value, "gradients: y was realised", [&] { gradients(y, {a}); });
  CHECK(gradients(y, {y})[0].to_vector<float>() == Floats{1, 1});
}

TEST_CASE("programs at other inputs") {
  const Tensor x = Tensor::input("x", {2}), z = Tensor::input("z", {2}), a = Tensor::from({2.f, 5.f});
  const std::vector<Tensor> both =
      substitute({x * x + a, gradients(x * x * x, {x})[0]}, {{"x", a - 1.0}, {"other", z}});
  CHECK(both[0].to_vector<float>() == Floats{3, 21});
  CHECK(both[1].to_vector<float>() == Floats{3, 48});
  // Not one after the other: what is put in is not looked at again.
  const std::vector<Tensor> swapped = substitute({x - z}, {{"x", z}, {"z", x}});
  CHECK(graph::node_of(swapped[0]) == graph::node_of(z - x));
  check_error(ErrorKind::Shape, "substitute: f32[3] for input 'x', expected f32[2]", [&] {
    substitute({x}, {{"x", Tensor::input("y", {3})}});
  });
  check_error(ErrorKind::DType, "substitute: i32[2] for input 'x', expected f32[2]", [&] {
    substitute({x}, {{"x", Tensor::from({1, 2})}});
  });
}

TEST_CASE("a chain of 100,000 nodes takes time linear in its nodes") {
  const auto seconds = [](int nodes) {
    const Tensor x = Tensor::input("x", {3}), c = Tensor::input("c", {3});
    Tensor y = x;
    for (int k = 0; k < nodes; ++k) y = k % 2 ? y * c : y + x;
    const auto start = std::chrono::steady_clock::now();
    const Tensor d = gradients(y, {x})[0];
    const double taken = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    CHECK(graph::topological_order({graph::node_of(d)}).size() > static_cast<size_t>(nodes) / 2);
    return taken;
  };
  // The best of a few: what else runs here only ever adds.
  double small = 1e9, large = 1e9;
  for (int round = 0; round < 2; ++round) {
    small = std::min(small, seconds(12'500));
    large = std::min(large, seconds(100'000));
  }
  MESSAGE("12,500 nodes: " << small << " s, 100,000: " << large << " s");
  CHECK(large < 8 * 4 * small);
}
