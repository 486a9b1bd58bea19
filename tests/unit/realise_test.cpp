// Lazy tensors that get their values: what is computed, and how often.
#include <doctest/doctest.h>

#include "compile/realise.hpp"
#include "compile/run/program_cache.hpp"
#include "graph/realise.hpp"
#include "graph/tensor_impl.hpp"
#include "lathe/scan.hpp"
#include "support/errors.hpp"

using namespace lathe;

namespace {

int evaluations = 0;

std::vector<StorageRef> counted(const std::vector<graph::NodeRef>& nodes) {
  ++evaluations;
  return pipeline::values_of(nodes);
}

/// Counts the programs that run to give tensors their values, while it lives.
struct Counter {
  Counter() {
    evaluations = 0;
    graph::set_realiser(counted);
  }
  ~Counter() { graph::set_realiser(pipeline::values_of); }
};

std::string key_of(const Tensor& t) {
  return default_device() + "\n" + graph::print(graph::without_data({graph::node_of(t)}).outputs);
}

} // namespace

TEST_CASE("elements are read from the values of the whole") {
  std::vector<float> values(60);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  const Tensor y = Tensor::from(values, {4, 5, 3}) * 2.0 + 1.0;
  const Counter counter;
  for (int64_t i = 0; i < 4; ++i)
    for (int64_t j = 0; j < 5; ++j) {
      CHECK(y(i, j, 1).item<float>() == static_cast<float>((i * 5 + j) * 3 + 1) * 2 + 1);
      CHECK(y(i, -1 - j).to_vector<float>()[2] == static_cast<float>((i * 5 + 4 - j) * 3 + 2) * 2 + 1);
    }
  CHECK(evaluations == 1);
  // A view of a view, backwards, with padding and every second element.
  const Tensor picked = y.flip({1}).pad({{1, 0}, {0, 0}, {0, 2}})(Slice{0, 3, 2}, 0);
  CHECK(picked.to_vector<float>() ==
        std::vector<float>{0, 0, 0, 0, 0, 2 * 27 + 1, 2 * 28 + 1, 2 * 29 + 1, 0, 0});
  CHECK(evaluations == 1);
  CHECK(y.to_vector<float>()[7] == 15);
  CHECK(evaluations == 1);
}

TEST_CASE("few elements of what would not fit are computed alone") {
  const Tensor huge = Tensor::iota({int64_t{1} << 40}, 0) * 3;
  CHECK(huge((int64_t{1} << 40) - 1).item<int64_t>() == ((int64_t{1} << 40) - 1) * 3);
}

TEST_CASE("an equal program is compiled once, and computes on the data of each") {
  const auto program = [](const Tensor& x, const Tensor& w) {
    return (x.matmul(w) + w.sum(0)).tanh().max(1);
  };
  std::vector<std::vector<float>> results;
  for (int k = 0; k < 3; ++k) {
    const Tensor x = Tensor::rand({5, 7}, static_cast<uint64_t>(k)).realise();
    const Tensor w = Tensor::rand({7, 3}, static_cast<uint64_t>(k + 10)).realise();
    const Tensor y = program(x, w);
    CHECK(pipeline::known_program(key_of(y)).has_value() == (k > 0));
    results.push_back(y.to_vector<float>());
    clear_caches();
    CHECK(program(x, w).to_vector<float>() == results.back());
  }
  CHECK(results[0] != results[1]);
  CHECK(results[1] != results[2]);
  // Other shapes and dtypes are other programs.
  const Tensor half =
      program(Tensor::rand({5, 7}, 1, DType::F16).realise(), Tensor::rand({7, 3}, 2, DType::F16).realise());
  CHECK(!pipeline::known_program(key_of(half)));
  // One input twice is not two inputs.
  const Tensor x = Tensor::rand({4, 4}, 1).realise(), y = Tensor::rand({4, 4}, 2).realise();
  const float same = (x - x).abs().sum().item<float>(), other = (x - y).abs().sum().item<float>();
  CHECK(same == 0);
  CHECK(other > 0);
}

TEST_CASE("a program that is kept for equal ones keeps no data") {
  const auto data_of = [](const Tensor& t) {
    return std::weak_ptr<Storage>(std::get<graph::InputAttr>(graph::node_of(t.realise())->attr).data);
  };
  std::weak_ptr<Storage> random, inside;
  {
    const Tensor numbers = Tensor::rand({300}, 1), twice = numbers * 2.0;
    (void)twice.to_vector<float>(); // a program that holds how `numbers` are made
    random = data_of(numbers);
  }
  CHECK(random.expired());
  {
    const Tensor step = Tensor::rand({3}, 1).realise();
    inside = data_of(step);
    const Scanned s = scan([&](const std::vector<Tensor>& state,
                               const std::vector<Tensor>&) -> ScanStep { return {{state[0] + step}, {}}; },
                           {Tensor::zeros({3})}, {}, {.steps = Expr(5)});
    (void)s.state[0].to_vector<float>();
  }
  CHECK(inside.expired());
}

TEST_CASE("a state has no value of its own") {
  const State s("s", {3});
  test::check_error(ErrorKind::Name, "item", [&] { (void)(s.value().sum() + 1.0).item<float>(); });
  test::check_error(ErrorKind::Name, "realise", [&] { (void)(s.value()).realise(); });
}
