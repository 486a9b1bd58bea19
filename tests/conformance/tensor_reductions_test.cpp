// Reductions, sorting, products, norms and attention against Eigen and plain loops, at sizes that are 1,
// prime or odd.
#include <doctest/doctest.h>

#include <Eigen/Dense>
#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>

#include "support/tensor_values.hpp"

using namespace lathe;
using namespace lathe::test;

namespace {

using Matrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
Matrix matrix(const Tensor& t) {
  const auto sizes = static_sizes(t.shape());
  const auto values = as_doubles(t);
  return Eigen::Map<const Matrix>(values.data(), sizes[0], sizes[1]);
}
std::vector<double> values(const Matrix& m) { return {m.data(), m.data() + m.size()}; }

} // namespace

TEST_CASE("reductions over every set of axes") {
  for (const auto& sizes : std::vector<std::array<int64_t, 3>>{{1, 1, 1}, {2, 3, 5}, {7, 1, 3}}) {
    const auto [d0, d1, d2] = sizes;
    const Tensor x = random({d0, d1, d2}, 5);
    const auto in = as_doubles(x);
    for (int mask = 1; mask < 8; ++mask) {
      Axes axes;
      for (int k = 0; k < 3; ++k)
        if (mask >> k & 1) axes.push_back(k - (k == 2 ? 3 : 0));
      const int64_t o0 = mask & 1 ? 1 : d0, o1 = mask & 2 ? 1 : d1, o2 = mask & 4 ? 1 : d2;
      std::vector<std::vector<double>> groups(static_cast<size_t>(o0 * o1 * o2));
      for (int64_t i = 0; i < d0; ++i)
        for (int64_t j = 0; j < d1; ++j)
          for (int64_t k = 0; k < d2; ++k)
            groups[static_cast<size_t>(((i % o0) * o1 + j % o1) * o2 + k % o2)].push_back(
                in[static_cast<size_t>((i * d1 + j) * d2 + k)]);
      std::vector<double> sum, product, largest, least, mean, variance, log_sum;
      for (const auto& g : groups) {
        const double n = static_cast<double>(g.size()), s = std::accumulate(g.begin(), g.end(), 0.0);
        sum.push_back(s);
        mean.push_back(s / n);
        product.push_back(std::accumulate(g.begin(), g.end(), 1.0, std::multiplies<>()));
        largest.push_back(*std::max_element(g.begin(), g.end()));
        least.push_back(*std::min_element(g.begin(), g.end()));
        double squares = 0, exponentials = 0;
        for (double v : g) squares += (v - s / n) * (v - s / n), exponentials += std::exp(v);
        variance.push_back(squares / n);
        log_sum.push_back(std::log(exponentials));
      }
      CHECK(x.sum(axes, true).shape() == Shape{o0, o1, o2});
      check_close(as_doubles(x.sum(axes)), sum, 2e-6);
      check_close(as_doubles(x.prod(axes)), product, 2e-6);
      check_close(as_doubles(x.max(axes)), largest, 0);
      check_close(as_doubles(x.min(axes)), least, 0);
      check_close(as_doubles(x.mean(axes)), mean, 2e-6);
      check_close(as_doubles(x.var(axes)), variance, 4e-6);
      check_close(as_doubles(x.std(axes).square()), variance, 4e-6);
      check_close(as_doubles(x.logsumexp(axes)), log_sum, 4e-6);
    }
  }
}

template <class T> void check_integer_reductions() {
  const auto in = noise<T>(21, 9);
  const Tensor x = Tensor::from(in, {3, 7});
  const auto lowest = std::numeric_limits<T>::lowest();
  CHECK(x.max().template item<T>() == *std::max_element(in.begin(), in.end()));
  CHECK(x.min().template item<T>() == *std::min_element(in.begin(), in.end()));
  CHECK(Tensor::from(std::vector<T>{lowest, 3, 0}).min().template item<T>() == lowest);
  uint64_t sum = 0;
  for (T v : in) sum += static_cast<uint64_t>(v);
  CHECK(x.sum().template item<uint64_t>() == sum);
  CHECK(x.argmin().template item<int64_t>() == std::min_element(in.begin(), in.end()) - in.begin());
  std::vector<T> sorted = in;
  std::sort(sorted.begin(), sorted.begin() + 7);
  const auto got = x.sort(1).template to_vector<T>();
  CHECK(std::equal(got.begin(), got.begin() + 7, sorted.begin()));
}

TEST_CASE("reductions of integers") {
  check_integer_reductions<int8_t>();
  check_integer_reductions<int16_t>();
  check_integer_reductions<int32_t>();
  check_integer_reductions<int64_t>();
  check_integer_reductions<uint8_t>();
  check_integer_reductions<uint16_t>();
  check_integer_reductions<uint32_t>();
  check_integer_reductions<uint64_t>();
  const Tensor flags = Tensor::from({true, false, true});
  CHECK(flags.sum().item<int64_t>() == 2);
  CHECK(flags.any().item<int>() == 1);
  CHECK(flags.all().item<int>() == 0);
  CHECK(flags.max().item<int>() == 1);
  CHECK(flags.min().item<int>() == 0);
  CHECK(flags.argmin().item<int>() == 1);
}

template <class T> void check_bits() {
  const std::vector<T> in = noise<T>(3 * 17, 4);
  std::vector<T> any(17, 0), all(17, static_cast<T>(-1));
  for (size_t k = 0; k < in.size(); ++k) any[k % 17] |= in[k], all[k % 17] &= in[k];
  const Tensor x = Tensor::from(in, {3, 17});
  CHECK(x.any_bits(0).template to_vector<T>() == any);
  CHECK(x.all_bits({-2}, true).template to_vector<T>() == all);
  CHECK(x.all_bits(0).dtype() == x.dtype());
  CHECK(x.any_bits().template item<T>() == std::accumulate(in.begin(), in.end(), T{0}, std::bit_or<T>()));
  const Tensor none = Tensor::zeros({0, 2}, x.dtype());
  CHECK(none.any_bits(0).template to_vector<T>() == std::vector<T>(2, 0));
  CHECK(none.all_bits(0).template to_vector<T>() == std::vector<T>(2, static_cast<T>(-1)));
}

TEST_CASE("bits that any element has, or all have") {
  check_bits<int8_t>();
  check_bits<uint16_t>();
  check_bits<int32_t>();
  check_bits<uint64_t>();
  CHECK(Tensor::from({true, false}).any_bits().item<bool>());
  CHECK(!Tensor::from({true, false}).all_bits().item<bool>());
}

TEST_CASE("argmax: the first on ties, the first NaN before all") {
  const Tensor x = Tensor::from(std::vector<float>{1, 3, 3, kNan, 2, kNan, -kInf, -kInf, -kInf}, {3, 3});
  CHECK(x.argmax(1).to_vector<int64_t>() == std::vector<int64_t>{1, 0, 0});
  CHECK(x.argmin(1).to_vector<int64_t>() == std::vector<int64_t>{0, 0, 0});
  CHECK(x.argmax().item<int64_t>() == 3);
  CHECK(x.argmax(0, true).shape() == Shape{1, 3});
  CHECK(Tensor::from({INT64_MIN, INT64_MIN}).argmax().item<int64_t>() == 0);
}

TEST_CASE("softmax") {
  for (int64_t n : {1, 2, 7, 13}) {
    const Tensor x = random({3, n}, 11) * 30.0f;
    const Matrix m = matrix(x);
    Matrix e = (m.colwise() - m.rowwise().maxCoeff()).array().exp();
    for (int i = 0; i < 3; ++i) e.row(i) /= e.row(i).sum();
    check_close(as_doubles(x.softmax(1)), values(e), 4e-6);
    check_close(as_doubles(x.log_softmax(-1).exp()), values(e), 1e-5);
    check_close(as_doubles(x.transpose().softmax(0).transpose()), values(e), 4e-6);
  }
  CHECK(Tensor::from({1000.f, 1000.f}).softmax(0).to_vector<float>() == std::vector<float>{0.5f, 0.5f});
  CHECK(std::isinf(Tensor::from({-kInf, -kInf}).logsumexp({0}).item<float>()));
}

TEST_CASE("cumsum") {
  // Up to a block, and of its parts; of one window of blocks and of more (unit/carry_test has the longest).
  for (int64_t n : {1, 2, 3, 8, 13, 15, 16, 17, 31, 255, 257, 4095, 4097, 8200}) {
    const auto in = noise<int32_t>(static_cast<size_t>(2 * n), 4);
    const auto got = Tensor::from(in, {2, n}).cumsum(1).to_vector<int64_t>();
    int64_t wrong = 0;
    for (int64_t r = 0; r < 2; ++r) {
      int64_t sum = 0;
      for (int64_t k = 0; k < n; ++k) wrong += got[r * n + k] != (sum += in[r * n + k]);
    }
    CHECK_MESSAGE(wrong == 0, wrong, " of rows of ", n);
  }
}

TEST_CASE("sort, argsort, topk are stable, NaN is the largest") {
  const std::vector<float> in{3, 1, kNan, 2, 1, -kInf, 3, kInf, 1};
  const Tensor x = Tensor::from(in);
  check_close(x.sort().to_vector<float>(), std::vector<float>{-kInf, 1, 1, 1, 2, 3, 3, kInf, kNan});
  CHECK(x.argsort().to_vector<int64_t>() == std::vector<int64_t>{5, 1, 4, 8, 3, 0, 6, 7, 2});
  check_close(x.sort(0, true).to_vector<float>(), std::vector<float>{kNan, kInf, 3, 3, 2, 1, 1, 1, -kInf});
  CHECK(x.argsort(0, true).to_vector<int64_t>() == std::vector<int64_t>{2, 7, 0, 6, 3, 1, 4, 8, 5});
  const auto [values, indices] = x.topk(3, 0, false);
  check_close(values.to_vector<float>(), std::vector<float>{-kInf, 1, 1});
  CHECK(indices.to_vector<int64_t>() == std::vector<int64_t>{5, 1, 4});
  // Several NaNs keep their order, whichever way the others go.
  const Tensor several = Tensor::from({kNan, 2.f, -kNan, kInf, kNan, 1.f});
  CHECK(several.argsort().to_vector<int64_t>() == std::vector<int64_t>{5, 1, 3, 0, 2, 4});
  CHECK(several.argsort(0, true).to_vector<int64_t>() == std::vector<int64_t>{0, 2, 4, 3, 1, 5});
  check_close(several.sort().to_vector<float>(), std::vector<float>{1, 2, kInf, kNan, kNan, kNan});
  check_close(several.topk(4).first.to_vector<float>(), std::vector<float>{kNan, kNan, kNan, kInf});
  const Tensor m = random({5, 3, 7}, 8);
  for (int axis = 0; axis < 3; ++axis)
    check_close(m.gather(axis, m.argsort(axis)).to_vector<float>(), m.sort(axis).to_vector<float>(), 0);
}

TEST_CASE("matmul against Eigen") {
  for (const auto& s : std::vector<std::array<int64_t, 3>>{{1, 1, 1}, {1, 7, 1}, {5, 3, 2}, {13, 11, 7}}) {
    const Tensor a = random({s[0], s[1]}, 1), b = random({s[1], s[2]}, 2);
    check_close(as_doubles(a.matmul(b)), values(matrix(a) * matrix(b)), 2e-6);
    check_close(as_doubles(a.cast(DType::F64).matmul(b.cast(DType::F64))), values(matrix(a) * matrix(b)),
                1e-14);
    const Tensor p = random<int32_t>({s[0], s[1]}, 3), q = random<int32_t>({s[1], s[2]}, 4);
    check_close(as_doubles(p.matmul(q)), values(matrix(p) * matrix(q)), 0);
    const Tensor column = random({s[1]}, 5);
    check_close(as_doubles(a.matmul(column)), values(matrix(a) * matrix(column.unsqueeze(1))), 2e-6);
    check_close(as_doubles(column.matmul(b)), values(matrix(column.unsqueeze(0)) * matrix(b)), 2e-6);
  }
  // Batches broadcast: [2, 1, 3, 5] x [4, 5, 2].
  const Tensor a = random({2, 1, 3, 5}, 6), b = random({4, 5, 2}, 7);
  const Tensor c = a.matmul(b);
  CHECK(c.shape() == Shape{2, 4, 3, 2});
  for (int i = 0; i < 2; ++i)
    for (int j = 0; j < 4; ++j)
      check_close(as_doubles(c.index({i, j})), values(matrix(a.index({i, 0})) * matrix(b.index({j}))), 2e-6);
  const Tensor t = Tensor::from(std::vector<bool>{true, false, false, true}, {2, 2});
  CHECK(t.matmul(t).to_vector<uint8_t>() == std::vector<uint8_t>{1, 0, 0, 1});
}

TEST_CASE("einsum") {
  const Tensor a = random({3, 5}, 1), b = random({5, 2}, 2), s = random({4, 4}, 3),
               cube = random({2, 3, 5}, 4);
  const Matrix A = matrix(a), B = matrix(b), S = matrix(s);
  check_close(as_doubles(einsum("ij,jk->ik", {a, b})), values(A * B), 2e-6);
  check_close(as_doubles(einsum("ij, jk", {a, b})), values(A * B), 2e-6);
  check_close(as_doubles(einsum("ij,jk->ki", {a, b})), values((A * B).transpose()), 2e-6);
  check_close(as_doubles(einsum("ij->ji", {a})), values(A.transpose()), 0);
  check_close(as_doubles(einsum("ba", {a})), values(A.transpose()), 0);
  check_close(as_doubles(einsum("ij->", {a})), std::vector<double>{A.sum()}, 2e-6);
  check_close(as_doubles(einsum("ii", {s})), std::vector<double>{S.trace()}, 2e-6);
  check_close(as_doubles(einsum("ii->i", {s})), values(S.diagonal()), 0);
  check_close(as_doubles(einsum("ij,ij->i", {a, a})),
              values((A.array() * A.array()).rowwise().sum().matrix()), 2e-6);
  check_close(as_doubles(einsum("i,j->ij", {a.index({0}), b.index({Ellipsis{}, 0})})),
              values(A.row(0).transpose() * B.col(0).transpose()), 2e-6);
  check_close(as_doubles(einsum("ij,jk,kl->il", {a, b, b.transpose()})), values(A * B * B.transpose()), 4e-6);
  check_close(as_doubles(einsum("...j,jk->...k", {cube, b})), as_doubles(cube.matmul(b)), 2e-6);
  check_close(as_doubles(einsum("b...,b...->...", {cube, cube})), as_doubles((cube * cube).sum(0)), 2e-6);
  check_close(as_doubles(einsum("ij,k->", {a, b.index({Ellipsis{}, 1})})),
              std::vector<double>{A.sum() * B.col(1).sum()}, 4e-6);
}

TEST_CASE("norms") {
  const Tensor x = random({2, 6, 5}, 51), w = random({5}, 52), b = random({5}, 53);
  const auto in = as_doubles(x), weight = as_doubles(w), bias = as_doubles(b);
  const auto layer = as_doubles(x.layer_norm({-1}, w, b)), rms = as_doubles(x.rms_norm({-1}, w));
  for (size_t r = 0; r < 12; ++r) {
    double mean = 0, squares = 0, variance = 0;
    for (size_t k = 0; k < 5; ++k) mean += in[r * 5 + k] / 5, squares += in[r * 5 + k] * in[r * 5 + k] / 5;
    for (size_t k = 0; k < 5; ++k) variance += (in[r * 5 + k] - mean) * (in[r * 5 + k] - mean) / 5;
    for (size_t k = 0; k < 5; ++k) {
      CHECK(layer[r * 5 + k] ==
            doctest::Approx((in[r * 5 + k] - mean) / std::sqrt(variance + 1e-5) * weight[k] + bias[k])
                .epsilon(1e-4));
      CHECK(rms[r * 5 + k] ==
            doctest::Approx(in[r * 5 + k] / std::sqrt(squares + 1e-5) * weight[k]).epsilon(1e-4));
    }
  }
  const Tensor mean = random({6}, 54), variance = random({6}, 55).square();
  const auto batch = as_doubles(x.batch_norm(mean, variance)), m = as_doubles(mean), v = as_doubles(variance);
  for (size_t i = 0; i < in.size(); ++i)
    CHECK(batch[i] == doctest::Approx((in[i] - m[i / 5 % 6]) / std::sqrt(v[i / 5 % 6] + 1e-5)).epsilon(1e-4));
  check_close(as_doubles(x.group_norm(3)), as_doubles(x.reshape({6, 10}).layer_norm({1}).reshape({2, 6, 5})),
              2e-6);
}

TEST_CASE("attention") {
  const Tensor q = random({2, 3, 4}, 61), k = random({2, 5, 4}, 62), v = random({2, 5, 7}, 63);
  for (const bool causal : {false, true}) {
    const Tensor out = scaled_dot_product_attention(q, k, v, {}, causal);
    for (int batch = 0; batch < 2; ++batch) {
      Matrix scores = matrix(q.index({batch})) * matrix(k.index({batch})).transpose() / 2.0;
      for (int i = 0; i < 3; ++i) {
        for (int j = 0; j < 5; ++j) scores(i, j) = causal && j > i ? 0 : std::exp(scores(i, j));
        scores.row(i) /= scores.row(i).sum();
      }
      check_close(as_doubles(out.index({batch})), values(scores * matrix(v.index({batch}))), 4e-6);
    }
  }
  const Tensor mask = Tensor::tri(3, 5, 0, DType::Bool);
  check_close(as_doubles(scaled_dot_product_attention(q, k, v, mask)),
              as_doubles(scaled_dot_product_attention(q, k, v, {}, true)), 1e-6);
}
