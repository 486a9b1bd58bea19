// Gradients against central differences in f64: every primitive, and what is composed of them.
#include <doctest/doctest.h>

#include "lathe/array_functions.hpp"
#include "lathe/functions.hpp"
#include "support/differences.hpp"

using namespace lathe;
using namespace lathe::test;

namespace {

using Tensors = std::vector<Tensor>;

/// A primitive's node on f64, as no public function builds all of them.
Tensor raw(graph::NodeRef node) { return graph::wrap(std::move(node)); }
graph::NodeRef node(const Tensor& t) { return graph::node_of(t); }

Tensor indices(const std::vector<int64_t>& values) { return Tensor::from(values); }

} // namespace

TEST_CASE("elementwise primitives") {
  struct Row {
    const char* name;
    Case c;
  };
  const Shape shape{3, 5};
  const Row rows[] = {
      {"Neg", {[](const Tensors& x) { return -x[0]; }, {shape}}},
      {"Recip", {[](const Tensors& x) { return x[0].reciprocal(); }, {shape}, 0.5, 2}},
      {"Recip of negatives", {[](const Tensors& x) { return x[0].reciprocal(); }, {shape}, -2, -0.5}},
      {"Sqrt", {[](const Tensors& x) { return x[0].sqrt(); }, {shape}, 0.3, 2}},
      {"Exp2", {[](const Tensors& x) { return x[0].exp2(); }, {shape}}},
      {"Log2", {[](const Tensors& x) { return x[0].log2(); }, {shape}, 0.3, 2}},
      {"Sin", {[](const Tensors& x) { return x[0].sin(); }, {shape}}},
      {"Trunc", {[](const Tensors& x) { return x[0].trunc() * x[0]; }, {shape}}},
      {"Cos", {[](const Tensors& x) { return x[0].cos(); }, {shape}}},
      {"Div", {[](const Tensors& x) { return x[0] / x[1]; }, {shape, shape}, 0.5, 2}},
      {"Div of negatives", {[](const Tensors& x) { return x[0] / x[1]; }, {shape, shape}, -2, -0.5}},
      {"Add", {[](const Tensors& x) { return x[0] + x[1]; }, {shape, shape}}},
      {"Mul", {[](const Tensors& x) { return x[0] * x[1]; }, {shape, shape}}},
      {"Mul by itself", {[](const Tensors& x) { return x[0] * x[0] * x[0]; }, {shape}}},
      {"Max", {[](const Tensors& x) { return maximum(x[0], x[1]); }, {shape, shape}}},
      {"Where", {[](const Tensors& x) { return where(x[0] < x[1], x[1], x[0] * x[1]); }, {shape, shape}}},
      {"broadcast", {[](const Tensors& x) { return x[0] * x[1] + x[2]; }, {shape, {5}, {3, 1}}}},
      {"through integers",
       {[](const Tensors& x) { return x[0].cast(DType::I32).cast(DType::F64) * x[0]; }, {shape}}},
      {"Contiguous", {[](const Tensors& x) { return x[0].transpose().contiguous().square(); }, {shape}}},
  };
  uint64_t seed = 1;
  for (const Row& row : rows) {
    CAPTURE(row.name);
    check_differences(row.c, seed++);
  }
}

TEST_CASE("casts between floats") {
  // Differences in f64 of what goes through f32 are as good as f32 is.
  const Tensor x = Tensor::input("x0", {4}, DType::F64);
  const Tensor y = x.cast(DType::F32).square().cast(DType::F64);
  const auto d = values_at(gradients(y, {x}), {{1, 2, -3, 0.5}});
  CHECK(d[0] == std::vector<double>{2, 4, -6, 1});
}

TEST_CASE("reductions") {
  for (const Axes& axes : {Axes{0}, Axes{1}, Axes{0, 2}, Axes{1, 2}, Axes{0, 1, 2}}) {
    CAPTURE(axes.size());
    const std::vector<Shape> shapes{{3, 4, 5}};
    check_differences({[&](const Tensors& x) { return x[0].sum(axes); }, shapes}, 1);
    check_differences({[&](const Tensors& x) { return x[0].max(axes, true); }, shapes}, 2);
    check_differences({[&](const Tensors& x) { return x[0].min(axes); }, shapes}, 3);
    check_differences({[&](const Tensors& x) { return x[0].prod(axes); }, shapes, 0.5, 1.5}, 4);
    check_differences({[&](const Tensors& x) { return x[0].mean(axes); }, shapes}, 5);
    check_differences({[&](const Tensors& x) { return x[0].std(axes, 1); }, shapes}, 6);
  }
}

TEST_CASE("a product's derivatives where factors are 0") {
  // Row 0 has no zero, row 1 one, row 2 two.
  const std::vector<double> values{2, -3, 4, 5, 0, 7, 0, 2, 0};
  for (const bool second : {false, true}) {
    const Tensor x = Tensor::input("x0", {3, 3}, DType::F64);
    Tensor d = gradients(x.prod({1}), {x})[0];
    // The sum of the first column's derivatives, by x again: the product of what neither is.
    if (second) d = gradients(d.index({Slice{}, 0}), {x})[0];
    const auto found = values_at({d}, {values})[0];
    if (second)
      CHECK(found == std::vector<double>{0, 4, -3, 0, 7, 0, 0, 0, 2});
    else
      CHECK(found == std::vector<double>{-12, 8, -6, 0, 35, 0, 0, 0, 0});
  }
}

TEST_CASE("scans and statistics") {
  for (const int64_t size : {3, 17, 37}) {
    CAPTURE(size);
    const std::vector<Shape> shapes{{2, size}};
    check_differences({[](const Tensors& x) { return x[0].cumprod(1).square(); }, shapes, 0.8, 1.2}, 1);
    check_differences({[](const Tensors& x) { return x[0].cummax(1).square(); }, shapes}, 2);
    check_differences({[](const Tensors& x) { return x[0].cummin(-1).square(); }, shapes}, 3);
  }
  check_differences({[](const Tensors& x) { return diff(x[0], 2, 0).square(); }, {{5, 3}}}, 4);
  check_differences({[](const Tensors& x) { return quantile(x[0], 0.3, 1).square(); }, {{3, 5}}}, 5);
  check_differences({[](const Tensors& x) { return median(x[0]); }, {{2, 4}}}, 6);
  const Tensor places = indices({2, -1, 0, 2, 5});
  check_differences({[&](const Tensors& x) { return bincount(places, 4, x[0]).square(); }, {{5}}}, 7);
  check_second_differences({[](const Tensors& x) { return x[0].cumprod(0); }, {{18}}, 0.8, 1.2}, 8, 1e-5);
}

TEST_CASE("a cumulative product's derivatives where factors are 0") {
  const Tensor x = Tensor::input("x0", {20}, DType::F64);
  std::vector<double> values(20, 1);
  values[1] = 2;
  values[2] = values[18] = 0;
  // The k-th derivative is the sum over the products from k on of their other factors.
  std::vector<double> want;
  for (size_t k = 0; k < 20; ++k) {
    double sum = 0;
    for (size_t end = k; end < 20; ++end) {
      double product = 1;
      for (size_t i = 0; i <= end; ++i) product *= i == k ? 1 : values[i];
      sum += product;
    }
    want.push_back(sum);
  }
  CHECK(values_at(gradients(x.cumprod(0), {x}), {values})[0] == want);
}

TEST_CASE("gather and scatter") {
  const Tensor twice = indices({2, 0, 5, 2, -1, 6, 99}); // doubled, and outside
  const auto flat = [](const Tensor& t) { return node(t); };
  check_differences({[&](const Tensors& x) { return raw(graph::gather(flat(x[0]), node(twice))); }, {{7}}},
                    1);
  for (const std::optional<Op> combine :
       {std::optional<Op>{}, std::optional(Op::Add), std::optional(Op::Max), std::optional(Op::Mul)}) {
    CAPTURE(combine.has_value());
    check_differences(
        {[&](const Tensors& x) { return raw(graph::scatter(flat(x[0]), node(twice), flat(x[1]), combine)); },
         {{7}, {7}}},
        2);
  }
  const Tensor rows = Tensor::from(std::vector<int64_t>{1, 0, 2, 2, 1, 0}, {3, 2});
  check_differences({[&](const Tensors& x) { return x[0].take(rows, 0).square(); }, {{3, 4}}}, 3);
  check_differences({[&](const Tensors& x) { return x[0].gather(1, rows).square(); }, {{3, 4}}}, 4);
  check_differences(
      {[&](const Tensors& x) { return x[0].scatter_add(0, rows, x[1]).square(); }, {{3, 2}, {3, 2}}}, 5);
  check_differences(
      {[&](const Tensors& x) { return x[0].scatter(0, rows, x[1]).square(); }, {{3, 2}, {3, 2}}}, 6);
}

TEST_CASE("a scattered product where factors are 0") {
  const Tensor base = Tensor::input("x0", {3}, DType::F64), source = Tensor::input("x1", {4}, DType::F64);
  const Tensor y = raw(graph::scatter(node(base), node(indices({0, 0, 1, 1})), node(source), Op::Mul));
  const auto d = values_at(gradients(y, {base, source}), {{2, 3, 5}, {0, 7, 0, 0}});
  CHECK(d[0] == std::vector<double>{0, 0, 1});
  CHECK(d[1] == std::vector<double>{14, 0, 0, 0});
}

TEST_CASE("small matrices along axes") {
  const graph::SmallMatrix a{2, 3, {1, -1, 0.5, 2, 0, 3}}, b{4, 2, {1, 2, 3, 4, 5, 6, 7, 8}};
  const auto apply = [&](const Tensors& x) { return raw(graph::transform(node(x[0]), {{0, 2}, {a, b}})); };
  check_differences({apply, {{3, 5, 2}}}, 1);
}

namespace {

Tensor cross_entropy(const Tensor& scores, const Tensor& classes) {
  return -scores.log_softmax(-1).gather(-1, classes.unsqueeze(-1)).mean();
}

const Case& layer_norm() {
  static const Case c{[](const Tensors& x) { return x[0].layer_norm({-1}, x[1], x[2]); }, {{3, 5}, {5}, {5}}};
  return c;
}
const Case& attention() {
  static const Case c{
      [](const Tensors& x) { return scaled_dot_product_attention(x[0], x[1], x[2], {}, true); },
      {{2, 3, 4}, {2, 3, 4}, {2, 3, 5}}};
  return c;
}
const Case& mlp() {
  static const Case c{[](const Tensors& x) {
                        const Tensor hidden = (x[0].matmul(x[1]) + x[2]).tanh();
                        return cross_entropy(hidden.matmul(x[3]), indices({2, 0, 1, 1}));
                      },
                      {{4, 3}, {3, 5}, {5}, {5, 3}}};
  return c;
}
Case convolution(const ConvOptions& options, const Shape& data, const Shape& weight) {
  return {[options](const Tensors& x) { return x[0].conv2d(x[1], x[2], options).square(); },
          {data, weight, {weight[0]}},
          -1,
          1};
}

} // namespace

TEST_CASE("functions of numbers") {
  const std::vector<std::pair<const char*, std::function<Tensor(const Tensor&)>>> rows{
      {"exp", [](const Tensor& x) { return x.exp(); }},
      {"expm1", [](const Tensor& x) { return x.expm1(); }},
      {"cos", [](const Tensor& x) { return x.cos(); }},
      {"sinh", [](const Tensor& x) { return x.sinh(); }},
      {"cosh", [](const Tensor& x) { return x.cosh(); }},
      {"tanh", [](const Tensor& x) { return x.tanh(); }},
      {"asin", [](const Tensor& x) { return (x * 0.45).asin(); }},
      {"acos", [](const Tensor& x) { return (x * 0.45).acos(); }},
      {"atan", [](const Tensor& x) { return x.atan(); }},
      {"asinh", [](const Tensor& x) { return x.asinh(); }},
      {"acosh", [](const Tensor& x) { return (x.abs() + 1.1).acosh(); }},
      {"atanh", [](const Tensor& x) { return (x * 0.45).atanh(); }},
      {"erf", [](const Tensor& x) { return x.erf(); }},
      {"gelu", [](const Tensor& x) { return x.gelu(); }},
      {"gelu, tanh", [](const Tensor& x) { return x.gelu(true); }},
      {"relu", [](const Tensor& x) { return x.relu(); }},
      {"leaky relu", [](const Tensor& x) { return x.leaky_relu(0.1); }},
      {"elu", [](const Tensor& x) { return x.elu(0.7); }},
      {"sigmoid", [](const Tensor& x) { return x.sigmoid(); }},
      {"silu", [](const Tensor& x) { return x.silu(); }},
      {"softplus", [](const Tensor& x) { return x.softplus(); }},
      {"hardswish", [](const Tensor& x) { return x.hardswish(); }},
      {"abs", [](const Tensor& x) { return x.abs(); }},
      {"clamp", [](const Tensor& x) { return x.clamp(-0.5, 1.0); }},
      {"cube", [](const Tensor& x) { return pow(x, Tensor::scalar(3.0)); }},
      {"power", [](const Tensor& x) { return pow(x.abs() + 0.1, Tensor::scalar(1.7)); }},
      {"log1p", [](const Tensor& x) { return x.abs().log1p(); }},
  };
  uint64_t seed = 100;
  for (const auto& [name, f] : rows) {
    CAPTURE(name);
    check_differences({[&f](const Tensors& x) { return f(x[0]); }, {{3, 7}}}, seed++, 1e-5);
  }
  const Case angle{[](const Tensors& x) { return atan2(x[0], x[1]); }, {{3, 7}, {7}}};
  const Case length{[](const Tensors& x) { return hypot(x[0], x[1]); }, {{3, 7}, {7}}};
  for (const Case& c : {angle, length}) {
    check_differences(c, seed++, 1e-5);
    check_second_differences(c, seed++, 1e-4);
  }
}

TEST_CASE("derivatives stay finite where a function's other branch is not") {
  const Tensor x = Tensor::input("x", {6});
  const std::vector<float> at{0, 1e-9f, 50, -50, 200, -200};
  Bindings bindings;
  bindings.bind("x", at);
  for (const Tensor& y :
       {x.tanh(), x.softplus(), x.abs().log1p(), x.sigmoid(), x.silu(), x.gelu(), x.gelu(true), x.elu()}) {
    const StorageRef found = evaluate_graph({node(gradients(y, {x})[0])}, bindings)[0];
    for (size_t i = 0; i < at.size(); ++i) {
      CAPTURE(at[i]);
      CHECK(std::isfinite(static_cast<const float*>(found->data())[i]));
    }
  }
}

TEST_CASE("layers") {
  check_differences(mlp(), 1);
  check_differences(layer_norm(), 2);
  check_differences(attention(), 3);
  check_differences({[](const Tensors& x) { return x[0].softmax(1); }, {{2, 5, 3}}}, 4);
  check_differences({[](const Tensors& x) { return x[0].log_softmax(-1); }, {{3, 5}}}, 5);
  check_differences({[](const Tensors& x) { return x[0].logsumexp({0}); }, {{3, 5}}}, 6);
  check_differences({[](const Tensors& x) { return x[0].rms_norm({-1}, x[1]); }, {{3, 5}, {5}}}, 7);
  check_differences({[](const Tensors& x) { return x[0].group_norm(2, x[1], x[2]); }, {{2, 4, 3}, {4}, {4}}},
                    8);
  for (const int64_t size : {3, 17, 37})
    check_differences({[](const Tensors& x) { return x[0].cumsum(1).square(); }, {{2, size}}}, 9);
  check_differences({[](const Tensors& x) { return x[0].sort(1); }, {{2, 5}}}, 10);
  check_differences({[](const Tensors& x) {
                       return einsum("bij,bkj->bik", {x[0], x[1]});
                     },
                     {{2, 3, 4}, {2, 5, 4}}},
                    11);
  check_differences({[](const Tensors& x) {
                       return concat({x[0], x[1].transpose()}, 0).square();
                     },
                     {{2, 3}, {3, 4}}},
                    12);
  const Tensor words = Tensor::from(std::vector<int32_t>{4, 0, 4, 2, 1, 4}, {2, 3});
  check_differences(
      {[&](const Tensors& x) { return x[0].take(words).mean({1}).matmul(x[1]); }, {{5, 3}, {3, 2}}}, 13);
}

TEST_CASE("convolution and pooling") {
  check_differences(convolution({}, {2, 2, 4, 5}, {3, 2, 3, 2}), 1);
  check_differences(convolution({.stride = {2}, .padding = {1}}, {1, 2, 5, 6}, {2, 2, 3, 3}), 2);
  check_differences(
      convolution({.stride = {1, 2}, .padding = {2, 0}, .dilation = {2, 1}}, {1, 1, 5, 6}, {2, 1, 3, 2}), 3);
  check_differences(convolution({.stride = {3}}, {1, 1, 7, 8}, {2, 1, 2, 2}), 4);
  check_differences(convolution({.padding = {1}, .groups = 2}, {1, 4, 4, 3}, {4, 2, 3, 3}), 5);
  check_differences({[](const Tensors& x) { return x[0].conv1d(x[1]); }, {{2, 2, 6}, {3, 2, 3}}}, 6);
  check_differences({[](const Tensors& x) {
                       return x[0].conv_transpose2d(x[1], {},
                                                    {.stride = {2}, .padding = {1}, .output_padding = {1}});
                     },
                     {{1, 2, 3, 3}, {2, 2, 3, 3}}},
                    7);
  const std::vector<PoolOptions> options{
      {},
      {.stride = {1}},
      {.stride = {2, 1}, .padding = {1}},
      {.stride = {2}, .dilation = {2, 1}},
      {.stride = {2}, .padding = {1}, .count_include_pad = false, .ceil_mode = true}};
  uint64_t seed = 20;
  for (const PoolOptions& o : options) {
    CAPTURE(seed);
    check_differences({[&](const Tensors& x) { return x[0].max_pool2d({2, 3}, o); }, {{1, 2, 5, 7}}}, seed++);
    check_differences({[&](const Tensors& x) {
                         return x[0].avg_pool2d({2, 3}, o).square();
                       },
                       {{1, 2, 5, 7}}},
                      seed++);
  }
}

TEST_CASE("array functions") {
  check_differences({[](const Tensors& x) { return tril(x[0], 1).square(); }, {{2, 3, 4}}}, 1);
  check_differences(
      {[](const Tensors& x) { return diagonal(x[0], -1, 0, 2).matmul(diag(x[1], -1)); }, {{4, 2, 3}, {2}}},
      2);
  check_differences({[](const Tensors& x) { return kron(x[0], x[1]).square(); }, {{2, 3}, {2, 2}}}, 3);
  check_differences(
      {[](const Tensors& x) { return masked_fill(x[0], indices({1, 0, 1}), 2).square(); }, {{2, 3}}}, 4);
  uint64_t seed = 10;
  for (const PadMode mode : {PadMode::Edge, PadMode::Reflect, PadMode::Symmetric, PadMode::Wrap})
    check_differences(
        {[&](const Tensors& x) { return pad(x[0], {{1, 2}, {7, 0}}, mode).square(); }, {{3, 2}}}, seed++);
  const std::vector<PoolOptions> options{
      {}, {.stride = {2, 1}, .padding = {1}}, {.stride = {3}, .padding = {1, 0}, .dilation = {1, 2}}};
  for (const PoolOptions& o : options) {
    check_differences({[&](const Tensors& x) { return unfold(x[0], {2}, o).square(); }, {{1, 2, 4, 5}}},
                      seed++);
    check_differences(
        {[&](const Tensors& x) { return fold(unfold(x[0], {2}, o).square(), {4, 5}, {2}, o).square(); },
         {{1, 2, 4, 5}}},
        seed++);
  }
  for (const Interpolation mode : {Interpolation::Nearest, Interpolation::Linear, Interpolation::Cubic})
    for (const std::vector<int64_t>& sizes : {std::vector<int64_t>{5, 4}, {6, 2}, {2, 7}})
      check_differences(
          {[&](const Tensors& x) { return interpolate(x[0], sizes, mode).square(); }, {{2, 3, 4}}}, seed++);
}

TEST_CASE("second derivatives") {
  check_second_differences({[](const Tensors& x) { return (x[0] * x[1]).sin().exp(); }, {{2, 3}, {2, 3}}}, 1,
                           1e-5);
  check_second_differences(mlp(), 2, 1e-5);
  check_second_differences(layer_norm(), 3, 1e-5);
  check_second_differences({attention().function, {{1, 2, 3}, {1, 2, 3}, {1, 2, 2}}}, 4, 1e-5);
  check_second_differences(convolution({.stride = {2}, .padding = {1}}, {1, 2, 4, 3}, {2, 2, 3, 3}), 5, 1e-5);
  check_second_differences({[](const Tensors& x) { return x[0].prod({1}); }, {{2, 4}}}, 6, 1e-5);
  check_second_differences({[](const Tensors& x) { return x[0].cumsum(0).square(); }, {{18}}}, 7, 1e-5);
}
