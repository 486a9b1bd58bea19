// The Tensor as a value: shapes, dtypes, laziness, realising, printing. Values are computed by the tests' own
// evaluator.
#include <doctest/doctest.h>

#include <numeric>
#include <sstream>
#include <thread>

#include "graph/tensor_impl.hpp"
#include "lathe/detail/access.hpp"
#include "lathe/tensor.hpp"
#include "support/graph_eval.hpp"

using namespace lathe;

namespace {

int realisations = 0;
std::vector<StorageRef> counting(const std::vector<graph::NodeRef>& nodes) {
  ++realisations;
  return test::realise_by_evaluation(nodes);
}
const bool registered = (graph::set_realiser(&counting), true);

std::string printed(const Tensor& t) {
  std::ostringstream out;
  out << t;
  return out.str();
}

} // namespace

TEST_CASE("the seed case") {
  const Tensor a = Tensor::from({-1.f, 4.f, -2.f, 5.f, 1.f, 5.f, 7.f, 9.f});
  const Tensor y = ((a + a) * a).relu() + a;
  CHECK(printed(y) == "1 36 6 55 3 55 105 171");
}

TEST_CASE("printing") {
  CHECK(printed(Tensor::scalar(1.5f)) == "1.5");
  CHECK(printed(Tensor::from({true, false})) == "1 0");
  CHECK(printed(Tensor::from(std::vector<int>{1, 2, 3, 4}, {2, 2})) == "1 2\n3 4");
  CHECK(printed(Tensor::arange(8).reshape({2, 2, 2})) == "0 1\n2 3\n\n4 5\n6 7");
  CHECK(printed(Tensor::from(std::vector<uint64_t>{~uint64_t{0}})) == "18446744073709551615");
  CHECK(printed(Tensor::from({1.0 / 3, 1e20, -0.0})) == "0.333333 1e+20 -0");
}

TEST_CASE("nothing is computed twice") {
  const Tensor x = Tensor::from({1.f, 2.f, 3.f});
  const Tensor y = (x * x).sum();
  const int before = realisations;
  CHECK(y.item<float>() == 14);
  CHECK(y.item<float>() == 14);
  CHECK(realisations == before + 1);
  const Tensor copy = y;
  CHECK(copy.item<double>() == 14);
  CHECK(realisations == before + 1);
}

TEST_CASE("a graph built before a tensor is realised reads its buffer afterwards") {
  const Tensor x = Tensor::from({1.f, 2.f, 3.f});
  const Tensor y = x.exp2(), z = y + y;
  y.realise();
  const graph::NodeRef node = graph::node_of(y);
  REQUIRE(node->op == Op::Input);
  const graph::NodeRef program = graph::with_realised({graph::node_of(z)})[0];
  CHECK(program->sources[0] == node);
  CHECK(z.to_vector<float>() == std::vector<float>{4, 8, 16});
}

TEST_CASE("what is there already is read without computing") {
  const Tensor x = Tensor::from(std::vector<float>{1, 2, 3, 4}, {2, 2});
  const int before = realisations;
  CHECK(x.to_vector<float>() == std::vector<float>{1, 2, 3, 4});
  CHECK(x.reshape({4}).to_vector<float>() == std::vector<float>{1, 2, 3, 4});
  CHECK(x.index({0}).to_vector<float>() == std::vector<float>{1, 2});
  CHECK(Tensor::full({2, 3}, 7).to_vector<int>() == std::vector<int>(6, 7));
  CHECK(Tensor().item<float>() == 0);
  CHECK(x.transpose().to_vector<float>() == std::vector<float>{1, 3, 2, 4}); // few elements
  CHECK(realisations == before);
  const Tensor large = Tensor::from(std::vector<float>(128 * 128, 1.0f), {128, 128});
  CHECK(large.transpose().to_vector<float>()[5] == 1);
  CHECK(realisations == before + 1);
}

TEST_CASE("a realised tensor keeps its program, but not the data that made it") {
  std::weak_ptr<Storage> data;
  Tensor y;
  {
    const Tensor x = Tensor::from({1.f, 2.f});
    data = std::get<graph::InputAttr>(graph::node_of(x)->attr).data;
    y = x + x;
    CHECK(y.to_vector<float>() == std::vector<float>{2, 4});
  }
  CHECK(data.expired());
  const graph::NodeRef origin = detail::impl(y)->origin();
  CHECK(origin->op == Op::Add);
  CHECK(std::get<graph::InputAttr>(origin->sources[0]->attr).name == "in0");
}

TEST_CASE("what no tensor can reach is freed") {
  std::weak_ptr<Storage> data;
  {
    const Tensor x = Tensor::from({1.f, 2.f});
    data = std::get<graph::InputAttr>(graph::node_of(x)->attr).data;
    const Tensor y = x.exp2() + x;
    CHECK(y.shape() == Shape{2});
  }
  CHECK(data.expired());
}

TEST_CASE("eight threads may realise one tensor") {
  const Tensor x = Tensor::from({1.f, 2.f, 3.f});
  const Tensor y = (x * x).sum();
  std::vector<float> results(8);
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) threads.emplace_back([&, t] { results[t] = (y + x.index({0})).item<float>(); });
  for (auto& t : threads) t.join();
  CHECK(results == std::vector<float>(8, 15));
}

TEST_CASE("dtypes of operators follow promote") {
  const auto of = [](DType d) { return Tensor::ones({2}, d); };
  CHECK((of(DType::I32) + of(DType::F32)).dtype() == DType::F64);
  CHECK((of(DType::I8) + of(DType::U8)).dtype() == DType::I16);
  CHECK((of(DType::Bool) + of(DType::Bool)).dtype() == DType::Bool);
  CHECK((of(DType::F16) * of(DType::F16)).dtype() == DType::F16);
  CHECK((of(DType::I16) / of(DType::I16)).dtype() == DType::F32);
  CHECK((of(DType::I32) / of(DType::I32)).dtype() == DType::F64);
  CHECK((of(DType::I64) < of(DType::F32)).dtype() == DType::Bool);
  CHECK(of(DType::I32).sqrt().dtype() == DType::F64);
  CHECK(of(DType::I8).exp().dtype() == DType::F32);
  CHECK(of(DType::BF16).tanh().dtype() == DType::BF16);
}

TEST_CASE("numbers beside a tensor are weak") {
  CHECK((Tensor::ones({2}, DType::F32) * 2.0).dtype() == DType::F32);
  CHECK((Tensor::ones({2}, DType::F16) + 1).dtype() == DType::F16);
  CHECK((Tensor::ones({2}, DType::I32) + 1).dtype() == DType::I32);
  CHECK((Tensor::ones({2}, DType::I32) * 0.5).dtype() == DType::F64);
  CHECK((1 - Tensor::ones({2}, DType::U8)).dtype() == DType::U8);
  CHECK((Tensor::ones({2}, DType::Bool) + 1).dtype() == DType::I64);
}

TEST_CASE("dtypes of reductions") {
  const auto of = [](DType d) { return Tensor::ones({3, 2}, d); };
  CHECK(of(DType::Bool).sum().dtype() == DType::I64);
  CHECK(of(DType::I8).sum(0).dtype() == DType::I64);
  CHECK(of(DType::U16).prod().dtype() == DType::U64);
  CHECK(of(DType::F16).sum().dtype() == DType::F16);
  CHECK(of(DType::I32).mean().dtype() == DType::F64);
  CHECK(of(DType::I8).max().dtype() == DType::I8);
  CHECK(of(DType::F32).argmax(0).dtype() == DType::I64);
  CHECK(of(DType::F32).any().dtype() == DType::Bool);
  CHECK(of(DType::I32).cumsum(0).dtype() == DType::I64);
}

TEST_CASE("shapes") {
  const Tensor x = Tensor::input("x", {2, 3, 5});
  CHECK(x.size(-1) == Expr(5));
  CHECK(x.sum(1).shape() == Shape{2, 5});
  CHECK(x.sum({0, -1}, true).shape() == Shape{1, 3, 1});
  CHECK(x.sum().shape() == Shape{});
  CHECK(x.argmax().shape() == Shape{});
  CHECK(x.argmax({}, true).shape() == Shape{1, 1, 1});
  CHECK(x.reshape({-1, 5}).shape() == Shape{6, 5});
  CHECK(x.flatten(1).shape() == Shape{2, 15});
  CHECK(x.permute({2, 0, 1}).shape() == Shape{5, 2, 3});
  CHECK(x.transpose().shape() == Shape{2, 5, 3});
  CHECK(x.unsqueeze(-1).shape() == Shape{2, 3, 5, 1});
  CHECK(x.unsqueeze(0).squeeze().shape() == Shape{2, 3, 5});
  CHECK(x.unsqueeze(0).expand({4, -1, 3, -1}).shape() == Shape{4, 2, 3, 5});
  CHECK(x.repeat({2, 1, 3, 1}).shape() == Shape{2, 2, 9, 5});
  CHECK(x.window(2, 2, 2).shape() == Shape{2, 3, 2, 2});
  CHECK(x.index({0, NewAxis{}, Ellipsis{}, Slice{{}, {}, 2}}).shape() == Shape{1, 3, 3});
  CHECK(x.index({Ellipsis{}, -1}).shape() == Shape{2, 3});
  CHECK(stack({x, x}, -1).shape() == Shape{2, 3, 5, 2});
  CHECK(concat({x, x, x}, 1).shape() == Shape{2, 9, 5});
  CHECK(x.split(2, 1).size() == 2);
  CHECK(x.split(2, 1)[1].shape() == Shape{2, 1, 5});
  CHECK(x.matmul(Tensor::input("w", {5, 7})).shape() == Shape{2, 3, 7});
  CHECK(x.matmul(Tensor::input("u", {5})).shape() == Shape{2, 3});
  CHECK(Tensor::input("u", {3}).matmul(x).shape() == Shape{2, 5});
  CHECK(Tensor::input("u", {5}).dot(Tensor::input("v", {5})).shape() == Shape{});
  CHECK(x.topk(2).second.shape() == Shape{2, 3, 2});
  CHECK(x.take(Tensor::input("i", {4, 6}, DType::I32), 1).shape() == Shape{2, 4, 6, 5});
  CHECK(einsum("abc,c->ba", {x, Tensor::input("u", {5})}).shape() == Shape{3, 2});
  CHECK(einsum("...c,dc", {x, Tensor::input("u", {7, 5})}).shape() == Shape{2, 3, 7});
}

TEST_CASE("shapes with variables") {
  const Var n("n", 1, 4096), m("m", 2, 8);
  const Tensor x = Tensor::input("x", {n, 64}), w = Tensor::input("w", {64, 10});
  CHECK(x.matmul(w).softmax(-1).shape() == Shape{n, 10});
  CHECK((x + x.sum(0)).shape() == Shape{n, 64});
  CHECK(x.reshape({-1, 8, 8}).shape() == Shape{n, 8, 8});
  CHECK(x.reshape({-1}).shape() == Shape{Expr(n) * 64});
  CHECK(x.transpose().shape() == Shape{64, n});
  CHECK(concat({x, Tensor::input("y", {m, 64})}).shape() == Shape{Expr(n) + m, 64});
  CHECK(x.index({0}).shape() == Shape{64});
  CHECK(x.index({-1}).shape() == Shape{64});
  CHECK(x.index({Slice{{}, {}, -1}}).shape() == Shape{n, 64});
  CHECK(x.pad({{1, 2}, {0, 0}}).shape() == Shape{Expr(n) + 3, 64});
  CHECK(x.cumsum(0).shape() == Shape{n, 64});
  CHECK(x.sort(0).shape() == Shape{n, 64});
  CHECK_THROWS_AS(x + Tensor::input("z", {m, 64}), Error);
}

TEST_CASE("programs with variables compute for every size") {
  const Var n("n", 1, 9);
  const Tensor x = Tensor::input("x", {n, 3});
  const std::vector<graph::NodeRef> program{graph::node_of(x.mean(0)), graph::node_of(x.cumsum(0)),
                                            graph::node_of(x.flip({0}).sort(0)),
                                            graph::node_of(concat({x, x}, 0))};
  for (int64_t rows : {1, 2, 7, 9}) {
    test::Bindings b;
    b.sizes["n"] = rows;
    std::vector<float> values;
    for (int64_t i = 0; i < rows * 3; ++i) values.push_back(static_cast<float>((i * 7) % 5));
    b.bind("x", values);
    const auto result = test::evaluate_graph(program, b);
    const auto* mean = static_cast<const float*>(result[0]->data());
    const auto* running = static_cast<const float*>(result[1]->data());
    const auto* sorted = static_cast<const float*>(result[2]->data());
    const auto* twice = static_cast<const float*>(result[3]->data());
    for (int64_t c = 0; c < 3; ++c) {
      std::vector<float> column;
      for (int64_t r = 0; r < rows; ++r) column.push_back(values[r * 3 + c]);
      float sum = 0;
      for (int64_t r = 0; r < rows; ++r) {
        sum += column[r];
        CHECK(running[r * 3 + c] == sum);
        CHECK(twice[r * 3 + c] == column[r]);
        CHECK(twice[(r + rows) * 3 + c] == column[r]);
      }
      CHECK(mean[c] == doctest::Approx(sum / static_cast<float>(rows)));
      std::sort(column.begin(), column.end());
      for (int64_t r = 0; r < rows; ++r) CHECK(sorted[r * 3 + c] == column[r]);
    }
  }
}

TEST_CASE("indices, sizes and parts of symbolic shapes") {
  const Var n("n", 2, 9);
  const Tensor x = Tensor::input("x", {n, 2}, DType::I64);
  const std::vector<graph::NodeRef> program{
      graph::node_of(Tensor::iota({n}, 0)), graph::node_of(Tensor::iota({n, 2}, -1, DType::I32)),
      graph::node_of(Tensor::scalar(Expr(n) * 3)), graph::node_of(x.shrink({{1, n}, {0, 1}}))};
  CHECK(program[3]->shape == Shape{Expr(n) - 1, 1});
  for (int64_t rows : {2, 5, 9}) {
    test::Bindings b;
    b.sizes["n"] = rows;
    std::vector<int64_t> values(rows * 2);
    std::iota(values.begin(), values.end(), 100);
    b.bind("x", values);
    const auto result = test::evaluate_graph(program, b);
    CHECK(*static_cast<const int64_t*>(result[2]->data()) == rows * 3);
    for (int64_t r = 0; r < rows; ++r) {
      CHECK(static_cast<const int64_t*>(result[0]->data())[r] == r);
      CHECK(static_cast<const int32_t*>(result[1]->data())[r * 2] == 0);
      CHECK(static_cast<const int32_t*>(result[1]->data())[r * 2 + 1] == 1);
      if (r > 0) CHECK(static_cast<const int64_t*>(result[3]->data())[r - 1] == 100 + r * 2);
    }
  }
  CHECK(Tensor::scalar(n).dtype() == DType::I64);
  CHECK(Tensor::scalar(Expr(7), DType::I8).dtype() == DType::I8);
  CHECK(Tensor::scalar(7).dtype() == DType::I32);
  CHECK_THROWS_AS(x.shrink({{0, 3}, {0, 2}}), Error);           // there may be two rows
  CHECK_THROWS_AS(x.shrink({{0, Expr(n) + 1}, {0, 2}}), Error); // one too many
  CHECK_THROWS_AS(x.shrink({{3, n}, {0, 2}}), Error);           // the end may come first
}

TEST_CASE("movement is views alone") {
  const Tensor x = Tensor::input("x", {4, 6});
  for (const Tensor& t :
       {x.transpose(), x.flip({1}), x.expand({2, 4, 6}), x.index({Slice{1, {}, 2}, Slice{{}, {}, -1}}),
        x.pad({{1, 1}, {0, 2}}), x.reshape({2, 12}).transpose().flip({0}), x.repeat({2, 2})})
    for (const graph::NodeRef& n : graph::topological_order({graph::node_of(t)}))
      CHECK((n->op == Op::View || n->op == Op::Input));
  CHECK(graph::node_of(x.transpose().flip({0}).index({Slice{1, 5}}))->sources[0] == graph::node_of(x));
}

TEST_CASE("matmul is expand, Mul, Reduce") {
  const Tensor a = Tensor::input("a", {3, 4}), b = Tensor::input("b", {4, 5});
  const auto order = graph::topological_order({graph::node_of(a.matmul(b))});
  int multiplications = 0, reductions = 0;
  for (const graph::NodeRef& n : order) {
    multiplications += n->op == Op::Mul;
    reductions += n->op == Op::Reduce;
    CHECK((n->op == Op::Input || n->op == Op::View || n->op == Op::Mul || n->op == Op::Reduce));
  }
  CHECK(multiplications == 1);
  CHECK(reductions == 1);
}

TEST_CASE("a random tensor is a function of its seed and the position") {
  const std::vector<float> a = Tensor::randn({3, 5}, 1).to_vector<float>();
  CHECK(a == Tensor::randn({15}, 1).to_vector<float>());
  CHECK(a != Tensor::randn({3, 5}, 2).to_vector<float>());
  const std::vector<float> more = Tensor::randn({20}, 1).to_vector<float>();
  CHECK(a == std::vector<float>(more.begin(), more.begin() + 15));
}
