// Workloads bound by memory: elementwise, reduce, softmax, layernorm, transpose.
#include <algorithm>

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

} // namespace lathe::bench
