// Support vector machines, as LIBSVM computes them.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "lathe/functions.hpp"
#include "onnx/ops/ml/scores.hpp"
#include "onnx/ops/tables.hpp"

namespace lathe::onnx {
namespace {

/// Probabilities of pairs lie this far from 0 and 1 at least.
constexpr double kLeastProbability = 1e-7;
/// Sweeps over all classes that couple probabilities. LIBSVM stops each row once it changes little, after 100
/// at the latest; rows of random probabilities of up to 20 classes stop after 4.
constexpr int kMostSweeps = 8;
/// Every sweep has nodes for each class.
constexpr int64_t kMostClasses = 64;

/// x against each vector: [rows, vectors].
Tensor kernel(const Call& call, const Tensor& x, const Tensor& vectors) {
  if (vectors.size(1) != x.size(1))
    call.fail(ErrorKind::Shape, fmt::format("support_vectors {} for features {}, expected as many of both",
                                            to_string(vectors.shape()), to_string(x.shape())));
  std::vector<double> params = call.numbers("kernel_params");
  if (params.empty()) params = {0, 0, 0};
  if (params.size() != 3)
    call.fail(ErrorKind::Value,
              fmt::format("{} kernel_params, expected gamma, coef0 and degree", params.size()));
  const double gamma = params[0], coef0 = params[1], degree = params[2];
  const std::string type = call.text("kernel_type", "LINEAR");
  // Differences are squared one by one: the sum of squares minus twice the product would cancel.
  if (type == "RBF") return (-gamma * (x.unsqueeze(1) - vectors).square().sum({2})).exp();
  const Tensor products = x.matmul(vectors.transpose());
  if (type == "LINEAR") return products;
  const Tensor scaled = gamma * products + coef0;
  if (type == "POLY") return pow(scaled, degree);
  if (type == "SIGMOID") return scaled.tanh();
  call.fail(ErrorKind::Value, fmt::format("kernel_type \"{}\", expected LINEAR, POLY, RBF or SIGMOID", type));
}

double first_rho(const Call& call) {
  const std::vector<double> rho = call.numbers("rho");
  if (rho.empty()) call.fail(ErrorKind::Value, "rho is missing, expected a number");
  return rho[0];
}

/// Without support vectors a model is linear, whatever kernel it names.
Tensor linear_svm_scores(const Call& call, const Tensor& x, int64_t outputs) {
  for (const char* name : {"kernel_type", "kernel_params", "support_vectors"}) call.ignore(name);
  return linear_products(call, x, outputs) + first_rho(call);
}

std::vector<Value> svm_regressor(Call& call) {
  Tensor x = feature_rows(call);
  x = x.cast(computed_dtype(x));
  const int64_t vectors = call.integer("n_supports", 0);
  if (post_transform_attribute(call) != PostTransform::None)
    call.fail(ErrorKind::Value, "post_transform, which ONNX Runtime leaves out: expected NONE");
  Tensor y;
  if (vectors > 0) {
    const Tensor weights = matrix_attribute(call, "coefficients", 1, x.dtype());
    if (weights.size(1) != Expr(vectors))
      call.fail(ErrorKind::Value,
                fmt::format("coefficients {}, expected {} of them", to_string(weights.shape()), vectors));
    const Tensor support = matrix_attribute(call, "support_vectors", vectors, x.dtype());
    y = kernel(call, x, support).matmul(weights.transpose()) + first_rho(call);
  } else {
    y = linear_svm_scores(call, x, 1);
  }
  if (call.integer("one_class", 0) != 0) y = (y > 0.0).cast(DType::F32) * 2.0 - 1.0;
  return {y.cast(DType::F32)};
}

// ---- classes against one another ----

/// The pairs of classes (i, j), i < j, in the order of their scores.
std::vector<std::pair<int64_t, int64_t>> pairs_of(int64_t classes) {
  std::vector<std::pair<int64_t, int64_t>> pairs;
  for (int64_t i = 0; i < classes; ++i)
    for (int64_t j = i + 1; j < classes; ++j) pairs.emplace_back(i, j);
  return pairs;
}

/// One score for each pair, positive for its first class. A pair's weights are those of the vectors of its
/// two classes: `coefficients` has for each vector one weight against every other class.
Tensor pair_scores(const Call& call, const Tensor& x, const std::vector<int64_t>& vectors_of) {
  const auto classes = static_cast<int64_t>(vectors_of.size());
  const int64_t vectors = std::accumulate(vectors_of.begin(), vectors_of.end(), int64_t{0});
  const std::vector<double> given = call.numbers("coefficients");
  if (static_cast<int64_t>(given.size()) != (classes - 1) * vectors)
    call.fail(ErrorKind::Value, fmt::format("{} coefficients, expected {} of each of {} vectors",
                                            given.size(), classes - 1, vectors));
  std::vector<int64_t> begin(classes + 1);
  std::partial_sum(vectors_of.begin(), vectors_of.end(), begin.begin() + 1);
  const auto pairs = pairs_of(classes);
  std::vector<double> weights(pairs.size() * vectors);
  for (size_t pair = 0; pair < pairs.size(); ++pair) {
    const auto [i, j] = pairs[pair];
    for (int64_t v = begin[i]; v < begin[i + 1]; ++v)
      weights[pair * vectors + v] = given[(j - 1) * vectors + v];
    for (int64_t v = begin[j]; v < begin[j + 1]; ++v) weights[pair * vectors + v] = given[i * vectors + v];
  }
  const std::vector<double> rho = call.numbers("rho");
  if (rho.size() != pairs.size())
    call.fail(ErrorKind::Value, fmt::format("{} numbers of rho, expected {}", rho.size(), pairs.size()));
  const Tensor support = matrix_attribute(call, "support_vectors", vectors, x.dtype());
  const Tensor of_pairs =
      vector_of(weights, x.dtype()).reshape({static_cast<int64_t>(pairs.size()), vectors});
  return kernel(call, x, support).matmul(of_pairs.transpose()) + vector_of(rho, x.dtype());
}

/// How many pairs each class wins: [rows, classes].
Tensor wins(const Tensor& scores, int64_t classes) {
  const auto pairs = pairs_of(classes);
  std::vector<int32_t> first(pairs.size() * classes), second(first);
  for (size_t pair = 0; pair < pairs.size(); ++pair) {
    first[pair * classes + pairs[pair].first] = 1;
    second[pair * classes + pairs[pair].second] = 1;
  }
  const Shape shape{static_cast<int64_t>(pairs.size()), classes};
  const Tensor won = (scores > 0.0).unsqueeze(2);
  return where(won, Tensor::from(first, shape), Tensor::from(second, shape)).sum({1});
}

/// The probabilities of classes from those of pairs, which `pairwise`, [rows, classes, classes], has as those
/// of the row's class against the column's (0 on the diagonal): the method of Wu, Lin and Weng, "Probability
/// estimates for multi-class classification by pairwise coupling", with LIBSVM's end of each row.
Tensor couple(const Tensor& pairwise, int64_t classes) {
  const double least_change = 0.005 / static_cast<double>(classes);
  const Tensor against = pairwise.transpose();
  const Tensor diagonal = against.square().sum({2}); // of q
  const Tensor eye = Tensor::eye(classes, classes, pairwise.dtype());
  const Tensor q = where(eye != 0, diagonal.unsqueeze(2), -against * pairwise);
  Tensor p = Tensor::full({}, Tensor::scalar_of(1.0 / static_cast<double>(classes)))
                 .cast(pairwise.dtype())
                 .expand({pairwise.size(0), classes});
  for (int sweep = 0; sweep < kMostSweeps; ++sweep) {
    Tensor qp = (q * p.unsqueeze(1)).sum({2});
    Tensor pqp = (p * qp).sum({1}, true);
    const Tensor going = (qp - pqp).abs().max({1}, true) >= least_change;
    Tensor next = p;
    for (int64_t i = 0; i < classes; ++i) {
      const Tensor own = diagonal.shrink({{0, diagonal.size(0)}, {i, i + 1}});
      const Tensor qp_i = qp.shrink({{0, qp.size(0)}, {i, i + 1}});
      const Tensor change = (pqp - qp_i) / own, grown = 1.0 + change;
      pqp = (pqp + change * (change * own + 2.0 * qp_i)) / grown / grown;
      qp = (qp + change * q.index({Slice{}, i})) / grown;
      next = (next + change * eye.index({i})) / grown;
    }
    p = where(going, next, p).contiguous();
  }
  return p;
}

Tensor probabilities(const Call& call, const Tensor& scores, int64_t classes) {
  const auto pairs = pairs_of(classes);
  const std::vector<double> a = call.numbers("prob_a"), b = call.numbers("prob_b");
  if (a.size() != pairs.size() || b.size() != pairs.size())
    call.fail(ErrorKind::Value,
              fmt::format("{} prob_a and {} prob_b, expected {} of both", a.size(), b.size(), pairs.size()));
  if (classes > kMostClasses)
    call.fail(ErrorKind::Limit,
              fmt::format("probabilities of {} classes, expected at most {}", classes, kMostClasses));
  const Tensor first = (-(scores * vector_of(a, scores.dtype()) + vector_of(b, scores.dtype())))
                           .sigmoid()
                           .clamp(kLeastProbability, 1 - kLeastProbability);
  // The columns of `both`: the pairs' first classes, their second classes, 0.
  std::vector<int64_t> column(classes * classes, 2 * static_cast<int64_t>(pairs.size()));
  for (size_t pair = 0; pair < pairs.size(); ++pair) {
    const auto [i, j] = pairs[pair];
    column[i * classes + j] = static_cast<int64_t>(pair);
    column[j * classes + i] = static_cast<int64_t>(pairs.size() + pair);
  }
  const Tensor none = Tensor::zeros({1, 1}, scores.dtype()).expand({scores.size(0), 1});
  const Tensor both = concat({first, 1.0 - first, none}, 1);
  return couple(both.take(Tensor::from(column, {classes, classes}), 1), classes);
}

std::vector<Value> svm_classifier(Call& call) {
  Tensor x = feature_rows(call);
  x = x.cast(computed_dtype(x));
  const Labels labels = class_labels(call, "classlabels_ints");
  const int64_t classes = labels.size();
  const std::vector<int64_t> vectors_of = call.integers("vectors_per_class", {});
  const PostTransform transform = post_transform_attribute(call);
  const bool estimates = call.has_attribute("prob_a") || call.has_attribute("prob_b");
  if (classes < 2) call.fail(ErrorKind::Value, "one class, expected two or more");
  if (std::all_of(vectors_of.begin(), vectors_of.end(), [](int64_t count) { return count == 0; })) {
    if (classes == 2 || estimates)
      call.fail(ErrorKind::Value,
                "a linear model of two classes or with probabilities, expected support vectors");
    const Tensor scores = linear_svm_scores(call, x, classes);
    return {labels_at(labels, scores.argmax(1)), transform_scores(scores, transform).cast(DType::F32)};
  }
  const auto numbers = static_cast<int64_t>(call.numbers("support_vectors").size());
  if (static_cast<int64_t>(vectors_of.size()) != classes ||
      !std::all_of(vectors_of.begin(), vectors_of.end(),
                   [&](int64_t count) { return count >= 0 && count <= numbers; }))
    call.fail(ErrorKind::Value,
              fmt::format("vectors_per_class has {} numbers, expected one for each of {} classes, "
                          "which support_vectors has",
                          vectors_of.size(), classes));
  const Tensor pairs = pair_scores(call, x, vectors_of);
  const Value label = labels_at(labels, wins(pairs, classes).argmax(1));
  Tensor scores;
  if (estimates)
    scores = transform_scores(probabilities(call, pairs, classes), transform);
  else if (classes > 2)
    scores = transform_scores(pairs, transform);
  else
    scores = scores_of_two(call, pairs, false, transform);
  return {label, scores.cast(DType::F32)};
}

const OpRow kMlSvmOps[] = {
    {"SVMRegressor", 1, svm_regressor, kMlDomain},
    {"SVMClassifier", 1, svm_classifier, kMlDomain},
};

} // namespace

OpTable ml_svm_ops() { return kMlSvmOps; }

} // namespace lathe::onnx
