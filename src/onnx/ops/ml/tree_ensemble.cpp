// Random forests and boosted trees.
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <set>

#include "lathe/functions.hpp"
#include "onnx/ops/ml/scores.hpp"
#include "onnx/ops/ml/tree_attributes.hpp"
#include "onnx/ops/tables.hpp"

namespace lathe::onnx {
namespace {

Aggregate aggregate_attribute(const Call& call) {
  const std::string name = call.text("aggregate_function", "SUM");
  if (name == "AVERAGE") return Aggregate::Average;
  if (name == "SUM") return Aggregate::Sum;
  if (name == "MIN") return Aggregate::Min;
  if (name == "MAX") return Aggregate::Max;
  call.fail(ErrorKind::Value,
            fmt::format("aggregate_function \"{}\", expected SUM, AVERAGE, MIN or MAX", name));
}

Tensor with_base(const Call& call, const Tensor& scores, const std::vector<double>& base) {
  if (base.empty()) return scores;
  if (scores.size(1) != Expr(static_cast<int64_t>(base.size())))
    call.fail(ErrorKind::Value,
              fmt::format("{} base_values, expected none or {}", base.size(), to_string(scores.size(1))));
  return scores + vector_of(base, scores.dtype());
}

Tensor regressed(Call& call, const Forest& forest, const Tensor& x, Aggregate aggregate,
                 PostTransform transform, const std::vector<double>& base) {
  if (forest.targets == 1) refuse_single_score(call, transform);
  const Tensor scores = count_votes(call, forest, x, aggregate).scores;
  return transform_scores(with_base(call, scores, base), transform);
}

std::vector<Value> tree_ensemble_regressor(Call& call) {
  const Tensor x = feature_rows(call);
  const int64_t targets = call.integer("n_targets");
  const Forest forest = forest_of_votes(call, "target", targets, x);
  const Tensor y = regressed(call, forest, x, aggregate_attribute(call), post_transform_attribute(call),
                             numbers_or_tensor(call, "base_values"));
  return {y.cast(DType::F32)};
}

std::vector<Value> tree_ensemble(Call& call) {
  const Tensor x = feature_rows(call, true);
  const int64_t aggregate = call.integer("aggregate_function", static_cast<int64_t>(Aggregate::Sum));
  const int64_t transform = call.integer("post_transform", 0);
  if (aggregate < 0 || aggregate > static_cast<int64_t>(Aggregate::Max))
    call.fail(ErrorKind::Value, fmt::format("aggregate_function {}, expected 0 to 3", aggregate));
  if (transform < 0 || transform > static_cast<int64_t>(PostTransform::Probit))
    call.fail(ErrorKind::Value, fmt::format("post_transform {}, expected 0 to 4", transform));
  const Forest forest = forest_of_leaves(call, x);
  const Tensor y = regressed(call, forest, x, static_cast<Aggregate>(aggregate),
                             static_cast<PostTransform>(transform), {});
  return {y.cast(x.dtype())};
}

/// Two classes of which the votes name one. ONNX Runtime's rules, as ONNX has none: weights of at least 0 are
/// probabilities of the second class, and others are its distance from the border between the two.
std::vector<Value> binary(Call& call, Forest forest, const Tensor& x, int64_t voted_for,
                          const Labels& labels) {
  bool probabilities = true;
  for (const auto& votes : forest.votes)
    for (const Vote& vote : votes) probabilities &= vote.weight >= 0;
  const std::vector<double> base = numbers_or_tensor(call, "base_values");
  if (base.size() > (voted_for == 0 ? 1 : 0))
    call.fail(ErrorKind::Value,
              fmt::format("{} base_values of two classes of which votes name number {}, expected "
                          "{}",
                          base.size(), voted_for, voted_for == 0 ? "one or none" : "none"));
  for (auto& votes : forest.votes)
    for (Vote& vote : votes) vote.target = 0;
  forest.targets = 1;
  const Tensor score = with_base(call, count_votes(call, forest, x, Aggregate::Sum).scores, base);
  const Tensor second = score.squeeze(1) > (probabilities ? 0.5 : 0.0);
  const PostTransform transform = post_transform_attribute(call);
  const Tensor scores = voted_for == 0 ? scores_of_two(call, score, probabilities, transform)
                                       : transform_scores(concat({score * 0.0, score}, 1), transform);
  return {labels_at(labels, second.cast(DType::I64)), scores.cast(DType::F32)};
}

std::vector<Value> tree_ensemble_classifier(Call& call) {
  const Tensor x = feature_rows(call);
  const Labels labels = class_labels(call, "classlabels_int64s");
  const int64_t classes = labels.size();
  if (classes < 2) call.fail(ErrorKind::Value, "one class, expected two or more");
  const Forest forest = forest_of_votes(call, "class", classes, x);
  std::set<int64_t> voted_for;
  for (const auto& votes : forest.votes)
    for (const Vote& vote : votes) voted_for.insert(vote.target);
  if (classes == 2 && voted_for.size() == 1) return binary(call, forest, x, *voted_for.begin(), labels);

  const std::vector<double> base = numbers_or_tensor(call, "base_values");
  const Votes votes = count_votes(call, forest, x, Aggregate::Sum, classes > 2 && base.empty());
  const Tensor scores = with_base(call, votes.scores, base);
  // A class without a vote is not the first, as in ONNX Runtime, even if all others have less than 0.
  const Tensor decisive =
      votes.voted ? where(*votes.voted, scores, -std::numeric_limits<double>::infinity()) : scores;
  const Tensor transformed = transform_scores(scores, post_transform_attribute(call));
  return {labels_at(labels, decisive.argmax(1)), transformed.cast(DType::F32)};
}

// Version 3 brought the attributes that end in _as_tensor, version 5 deprecated both ops.
const OpRow kMlTreeOps[] = {
    {"TreeEnsembleRegressor", 1, tree_ensemble_regressor, kMlDomain},
    {"TreeEnsembleRegressor", 3, tree_ensemble_regressor, kMlDomain},
    {"TreeEnsembleClassifier", 1, tree_ensemble_classifier, kMlDomain},
    {"TreeEnsembleClassifier", 3, tree_ensemble_classifier, kMlDomain},
    {"TreeEnsemble", 5, tree_ensemble, kMlDomain},
};

} // namespace

OpTable ml_tree_ops() { return kMlTreeOps; }

} // namespace lathe::onnx
