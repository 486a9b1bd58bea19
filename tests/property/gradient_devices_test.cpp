// Programs with gradients, compiled, against the evaluator of graphs: what differentiating
// leaves behind (stacked and overlapping views, scatters, shares of maxima) must survive lowering and the
// search.
#include <doctest/doctest.h>

#include <cmath>
#include <cstdlib>

#include "graph/tensor_impl.hpp"
#include "support/devices.hpp"
#include "support/graph_eval.hpp"

using namespace lathe;

namespace {

using Tensors = std::vector<Tensor>;

/// LATHE_TEST_DEVICE, or those that need no compiler of their own.
std::vector<std::string> tested() {
  if (const char* given = std::getenv("LATHE_TEST_DEVICE"))
    return has_device(given) ? std::vector<std::string>{given} : std::vector<std::string>{};
  return has_device("cpu") ? std::vector<std::string>{"interp", "cpu"} : std::vector<std::string>{"interp"};
}

void check(const std::function<Tensor(const Tensors&)>& function, const std::vector<Shape>& shapes) {
  Tensors inputs;
  NamedTensors values;
  test::Bindings bindings;
  for (size_t k = 0; k < shapes.size(); ++k) {
    const std::string name = fmt::format("x{}", k);
    inputs.push_back(Tensor::input(name, shapes[k]));
    values.emplace(name, Tensor::randn(shapes[k], 10 + k));
    bindings.bind(name, values.at(name).to_vector<float>());
  }
  const Tensors derivatives = gradients(function(inputs).square().mean(), inputs);
  NamedTensors outputs;
  std::vector<graph::NodeRef> nodes;
  for (size_t k = 0; k < derivatives.size(); ++k) {
    outputs.emplace(fmt::format("d{}", k), derivatives[k]);
    nodes.push_back(graph::node_of(derivatives[k]));
  }
  const std::vector<StorageRef> expected = test::evaluate_graph(nodes, bindings);
  for (const std::string& device : tested()) {
    CAPTURE(device);
    const NamedTensors found = compile(outputs, on(device))(values);
    for (size_t k = 0; k < derivatives.size(); ++k) {
      const std::vector<float> got = found.at(fmt::format("d{}", k)).to_vector<float>();
      const auto* want = static_cast<const float*>(expected[k]->data());
      float largest = 0, worst = 0;
      for (size_t i = 0; i < got.size(); ++i) {
        largest = std::max(largest, std::fabs(want[i]));
        worst = std::max(worst, std::fabs(got[i] - want[i]));
      }
      CHECK(largest > 0);
      CHECK_MESSAGE(worst <= 1e-4f * largest, "x" << k << ": off by " << worst << " of " << largest);
    }
  }
}

} // namespace

TEST_CASE("convolutions") {
  check([](const Tensors& x) { return x[0].conv2d(x[1], x[2], {.padding = {1}}).relu(); },
        {{2, 3, 9, 7}, {4, 3, 3, 3}, {4}});
  check(
      [](const Tensors& x) {
        return x[0].conv2d(x[1], {}, {.stride = {2, 3}, .padding = {1, 0}});
      },
      {{1, 3, 9, 11}, {5, 3, 3, 2}});
  check([](const Tensors& x) { return x[0].conv2d(x[1], {}, {.dilation = {2}, .groups = 3}); },
        {{2, 3, 9, 8}, {6, 1, 3, 3}});
}

TEST_CASE("pooling") {
  check(
      [](const Tensors& x) {
        return x[0].max_pool2d({2, 3}, {.stride = {2}, .padding = {1}});
      },
      {{1, 3, 9, 8}});
  check([](const Tensors& x) { return x[0].avg_pool2d({3}, {.stride = {2}, .padding = {1}}); },
        {{1, 3, 9, 7}});
}

TEST_CASE("attention, norms, scans and embeddings") {
  check([](const Tensors& x) { return scaled_dot_product_attention(x[0], x[1], x[2], {}, true); },
        {{3, 7, 8}, {3, 7, 8}, {3, 7, 5}});
  check([](const Tensors& x) { return x[0].layer_norm({-1}, x[1], x[2]).gelu().matmul(x[3]); },
        {{9, 13}, {13}, {13}, {13, 5}});
  check([](const Tensors& x) { return x[0].cumsum(1).tanh(); }, {{3, 37}});
  check([](const Tensors& x) { return x[0].prod({1}); }, {{5, 7}});
  const Tensor words = Tensor::from(std::vector<int32_t>{4, 0, 4, 2, 1, 4}, {2, 3});
  check([&](const Tensors& x) { return x[0].take(words).matmul(x[1]).softmax(-1); }, {{5, 6}, {6, 3}});
}

TEST_CASE("gradients of gradients") {
  check(
      [](const Tensors& x) {
        return gradients(x[0].conv2d(x[1], {}, {.stride = {2}, .padding = {1}}).sigmoid(), {x[0]})[0];
      },
      {{1, 2, 6, 5}, {3, 2, 3, 3}});
}
