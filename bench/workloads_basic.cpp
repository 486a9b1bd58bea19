// Workloads bound by memory: elementwise, reductions, softmax, layernorm, transpose, cumsum.
#include <algorithm>
#include <cmath>

#include "reference.hpp"

namespace lathe::bench {

void build_elementwise(Case& c) {
  int64_t n = c.shape[0];
  Tensor a = c.input("a", {n}, 1), b = c.input("b", {n}, 2), k = c.input("c", {n}, 3),
         d = c.input("d", {n}, 4);
  c.output("y", ((a + b) * k).relu() + d);
  c.flops = 4.0 * static_cast<double>(n);
  c.tolerance = 8 * epsilon(c.dtype);
  c.reference = [](const HostTensors& in) {
    const HostTensor &a = in.at("a"), &b = in.at("b"), &k = in.at("c"), &d = in.at("d");
    std::vector<double> y(static_cast<size_t>(a.count()));
    for (int64_t i = 0; i < a.count(); ++i)
      y[static_cast<size_t>(i)] = std::max((a.get(i) + b.get(i)) * k.get(i), 0.0) + d.get(i);
    return Reference{{"y", y}};
  };
}

void build_gelu(Case& c) {
  int64_t n = c.shape[0];
  Tensor x = c.input("x", {n}, 1, -4, 4);
  c.output("y", x.gelu(/*tanh_approximation=*/true));
  c.flops = 8.0 * static_cast<double>(n); // a tanh counts as one
  c.tolerance = 32 * epsilon(c.dtype);
  c.reference = [](const HostTensors& in) {
    const HostTensor& x = in.at("x");
    std::vector<double> y(static_cast<size_t>(x.count()));
    for (int64_t i = 0; i < x.count(); ++i) {
      double v = x.get(i);
      y[static_cast<size_t>(i)] = 0.5 * v * (1 + std::tanh(std::sqrt(2 / M_PI) * (v + 0.044715 * v * v * v)));
    }
    return Reference{{"y", y}};
  };
}

void build_reduce(Case& c) {
  Tensor x = c.input("x", {c.shape[0]}, 1, 0, 1);
  c.output("y", x.sum());
  c.flops = static_cast<double>(c.shape[0]);
  c.tolerance = sum_tolerance(c.dtype, c.shape[0]);
  c.reference = [](const HostTensors& in) {
    const HostTensor& x = in.at("x");
    double sum = 0;
    for (int64_t i = 0; i < x.count(); ++i) sum += x.get(i);
    return Reference{{"y", {sum}}};
  };
}

void build_softmax(Case& c) {
  int64_t rows = c.shape[0], columns = c.shape[1];
  Tensor x = c.input("x", {rows, columns}, 1, -4, 4);
  c.output("y", x.softmax(-1));
  c.flops = 4.0 * static_cast<double>(rows * columns); // subtract, exp, sum, divide
  c.tolerance = sum_tolerance(c.dtype, columns);
  c.reference = [=](const HostTensors& in) {
    return Reference{{"y", flat(softmax_rows(matrix(in.at("x"), rows, columns)))}};
  };
}

void build_layernorm(Case& c) {
  int64_t rows = c.shape[0], columns = c.shape[1];
  Tensor x = c.input("x", {rows, columns}, 1, -2, 3);
  Tensor weight = c.input("weight", {columns}, 2), bias = c.input("bias", {columns}, 3);
  c.output("y", x.layer_norm({-1}, weight, bias));
  c.flops =
      7.0 * static_cast<double>(rows * columns); // two sums, a square, subtract, and three to scale and shift
  c.tolerance = sum_tolerance(c.dtype, columns);
  c.reference = [=](const HostTensors& in) {
    return Reference{
        {"y", flat(layer_norm_rows(matrix(in.at("x"), rows, columns), matrix(in.at("weight"), 1, columns),
                                   matrix(in.at("bias"), 1, columns)))}};
  };
}

void build_transpose(Case& c) {
  int64_t rows = c.shape[0], columns = c.shape[1];
  Tensor x = c.input("x", {rows, columns}, 1);
  c.output("y", x.transpose().contiguous());
  c.reference = [=](const HostTensors& in) {
    return Reference{{"y", flat(matrix(in.at("x"), rows, columns).transpose())}};
  };
}

void build_column_sums(Case& c) {
  int64_t rows = c.shape[0], columns = c.shape[1];
  Tensor x = c.input("x", {rows, columns}, 1, 0, 1);
  c.output("y", x.sum(0));
  c.flops = static_cast<double>(rows * columns);
  c.tolerance = sum_tolerance(c.dtype, rows);
  c.reference = [=](const HostTensors& in) {
    return Reference{{"y", flat(matrix(in.at("x"), rows, columns).colwise().sum())}};
  };
}

void build_argmax(Case& c) {
  int64_t rows = c.shape[0], columns = c.shape[1];
  Tensor x = c.input("x", {rows, columns}, 1);
  c.output("y", x.argmax(-1));
  c.flops = static_cast<double>(rows * columns);
  c.reference = [=](const HostTensors& in) {
    std::vector<double> y;
    for (int64_t i = 0; i < rows; ++i) {
      int64_t best = 0;
      for (int64_t j = 1; j < columns; ++j)
        if (in.at("x").get(i * columns + j) > in.at("x").get(i * columns + best)) best = j;
      y.push_back(static_cast<double>(best));
    }
    return Reference{{"y", y}};
  };
}

void build_cumsum(Case& c) {
  int64_t rows = c.shape[0], columns = c.shape[1];
  Tensor x = c.input("x", {rows, columns}, 1, 0, 1);
  c.output("y", x.cumsum(-1));
  c.flops = static_cast<double>(rows * columns);
  c.tolerance = sum_tolerance(c.dtype, columns);
  c.reference = [=](const HostTensors& in) {
    Matrix y = matrix(in.at("x"), rows, columns);
    for (int64_t j = 1; j < columns; ++j) y.col(j) += y.col(j - 1);
    return Reference{{"y", flat(y)}};
  };
}

} // namespace lathe::bench
