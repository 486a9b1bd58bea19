// Linear models.
#include <fmt/format.h>

#include <algorithm>

#include "lathe/functions.hpp"
#include "onnx/ops/ml/scores.hpp"
#include "onnx/ops/tables.hpp"
#include "onnx/ops/values.hpp"

namespace lathe::onnx {
namespace {

/// The products of x and the coefficients, [rows, `outputs`], plus the attribute `intercepts`.
Tensor linear_scores(const Call& call, const Tensor& scores, int64_t outputs) {
  const std::vector<double> intercepts = call.numbers("intercepts");
  if (intercepts.empty()) return scores;
  if (static_cast<int64_t>(intercepts.size()) != outputs)
    call.fail(ErrorKind::Value, fmt::format("{} intercepts, expected {}", intercepts.size(), outputs));
  return scores + vector_of(intercepts, scores.dtype());
}

std::vector<Value> linear_regressor(Call& call) {
  const int64_t targets = call.integer("targets", 1);
  const PostTransform transform = post_transform_attribute(call);
  if (targets == 1) refuse_single_score(call, transform);
  return {transform_scores(linear_scores(call, linear_products(call, feature_rows(call), targets), targets),
                           transform)
              .cast(DType::F32)};
}

std::vector<Value> linear_classifier(Call& call) {
  const Tensor x = feature_rows(call);
  const Labels labels = class_labels(call, "classlabels_ints");
  const int64_t classes = labels.size();
  call.ignore("multi_class"); // the transform is an attribute of its own
  const int64_t features = fixed_size(call, x, 1);
  // The intercepts tell how many rows count: some models have more coefficients, which ONNX Runtime does not
  // read either.
  std::vector<double> coefficients = call.numbers("coefficients");
  const auto rows = static_cast<int64_t>(coefficients.size()) / features;
  const auto intercepts = static_cast<int64_t>(call.numbers("intercepts").size());
  const int64_t outputs = intercepts == 0 ? rows : std::min(rows, intercepts);
  if (classes < 2 || (outputs != classes && !(outputs == 1 && classes == 2)))
    call.fail(ErrorKind::Value,
              fmt::format("{} rows of coefficients for {} classes, expected one for each or one for two",
                          outputs, classes));
  const PostTransform transform = post_transform_attribute(call);
  coefficients.resize(static_cast<size_t>(outputs * features));
  const DType computed = computed_dtype(x);
  const Tensor weights = vector_of(coefficients, computed).reshape({outputs, features});
  const Tensor scores = linear_scores(call, x.cast(computed).matmul(weights.transpose()), outputs);
  if (outputs == 1)
    return {labels_at(labels, (scores > 0.0).squeeze(1)),
            scores_of_two(call, scores, true, transform).cast(DType::F32)};
  return {labels_at(labels, scores.argmax(1)), transform_scores(scores, transform).cast(DType::F32)};
}

const OpRow kMlLinearOps[] = {
    {"LinearRegressor", 1, linear_regressor, kMlDomain},
    {"LinearClassifier", 1, linear_classifier, kMlDomain},
};

} // namespace

OpTable ml_linear_ops() { return kMlLinearOps; }

} // namespace lathe::onnx
