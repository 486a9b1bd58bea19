// Derivatives by central differences in f64, to compare gradients with.
#pragma once
#include <doctest/doctest.h>

#include <cmath>
#include <functional>
#include <random>

#include "graph/tensor_impl.hpp"
#include "lathe/gradient.hpp"
#include "support/graph_eval.hpp"

namespace lathe::test {

/// Numbers of an f64 program's inputs "x0", "x1", ...
using Points = std::vector<std::vector<double>>;

inline std::vector<double> random_numbers(std::mt19937_64& random, size_t count, double low, double high) {
  std::uniform_real_distribution<double> pick(low, high);
  std::vector<double> numbers(count);
  for (double& x : numbers) x = pick(random);
  return numbers;
}

inline std::vector<std::vector<double>> values_at(const std::vector<Tensor>& tensors, const Points& points) {
  Bindings bindings;
  for (size_t k = 0; k < points.size(); ++k) bindings.bind(fmt::format("x{}", k), points[k]);
  std::vector<graph::NodeRef> nodes;
  for (const Tensor& t : tensors) nodes.push_back(graph::node_of(t));
  std::vector<std::vector<double>> values;
  for (const StorageRef& s : evaluate_graph(nodes, bindings)) {
    const auto* p = static_cast<const double*>(s->data());
    values.emplace_back(p, p + s->bytes() / sizeof(double));
  }
  return values;
}

/// A function of f64 tensors of these shapes, at random points in [low, high].
struct Case {
  std::function<Tensor(const std::vector<Tensor>&)> function;
  std::vector<Shape> shapes;
  double low = -2, high = 2;
};

struct Differentiated {
  Points points;
  std::vector<Tensor> inputs, derivatives;
  Tensor sum; // of y times a random cotangent
};

inline Differentiated differentiate(const Case& c, uint64_t seed) {
  std::mt19937_64 random(seed);
  Differentiated d;
  for (size_t k = 0; k < c.shapes.size(); ++k) {
    d.inputs.push_back(Tensor::input(fmt::format("x{}", k), c.shapes[k], DType::F64));
    d.points.push_back(
        random_numbers(random, static_cast<size_t>(num_elements(c.shapes[k]).value()), c.low, c.high));
  }
  const Tensor y = c.function(d.inputs);
  const auto count = static_cast<size_t>(num_elements(y.shape()).value());
  const Tensor dy = Tensor::from(random_numbers(random, count, -1, 1), y.shape());
  d.sum = (y * dy).sum();
  d.derivatives = gradients(y, d.inputs, dy);
  return d;
}

/// Every element of every derivative against (f(x + h) - f(x - h)) / 2h.
inline void check_differences(const Case& c, uint64_t seed, double tolerance = 1e-6) {
  Differentiated d = differentiate(c, seed);
  const auto derivatives = values_at(d.derivatives, d.points);
  for (size_t k = 0; k < d.inputs.size(); ++k) {
    REQUIRE(d.derivatives[k].shape() == c.shapes[k]);
    REQUIRE(d.derivatives[k].dtype() == DType::F64);
    for (size_t i = 0; i < d.points[k].size(); ++i) {
      const double at = d.points[k][i], h = 1e-5;
      d.points[k][i] = at + h;
      const double above = values_at({d.sum}, d.points)[0][0];
      d.points[k][i] = at - h;
      const double below = values_at({d.sum}, d.points)[0][0];
      d.points[k][i] = at;
      const double difference = (above - below) / (2 * h), found = derivatives[k][i];
      CHECK_MESSAGE(std::fabs(found - difference) <= tolerance * (1 + std::fabs(difference)),
                    "x" << k << "[" << i << "] = " << at << ": " << found << ", by differences "
                        << difference);
    }
  }
}

/// The derivative of a random sum of the first derivatives, against differences of these.
inline void check_second_differences(const Case& c, uint64_t seed, double tolerance = 1e-6) {
  const auto first = [&c](const std::vector<Tensor>& xs) {
    const Tensor y = c.function(xs);
    const Tensor dy =
        Tensor::linspace(0.5, 1.5, num_elements(y.shape()).value(), DType::F64).reshape(y.shape());
    Tensor sum = Tensor::zeros({}, DType::F64);
    double factor = 0.7;
    for (const Tensor& d : gradients(y, xs, dy)) {
      const Tensor weights = Tensor::linspace(-factor, 1, num_elements(d.shape()).value(), DType::F64);
      sum = sum + (d.reshape({num_elements(d.shape())}) * weights).sum();
      factor += 0.4;
    }
    return sum;
  };
  check_differences({first, c.shapes, c.low, c.high}, seed, tolerance);
}

} // namespace lathe::test
