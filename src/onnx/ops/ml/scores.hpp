// What the models of ai.onnx.ml have in common: rows of features, transforms of scores, labels of classes.
#pragma once
#include <vector>

#include "lathe/onnx/op.hpp"

namespace lathe::onnx {

inline constexpr const char* kMlDomain = "ai.onnx.ml";

/// Input 0 as [rows, features], where one axis is one row. Error(DType) unless its dtype is one that
/// ai.onnx.ml computes with: f32, f64, i32 or i64, and of versions that say so f16.
Tensor feature_rows(const Call& call, bool half = false);
/// Input 0 of any shape. Error(DType) as feature_rows.
Tensor features_of_any_shape(const Call& call, bool half = false);
/// f64 for f64, f32 for the others.
DType computed_dtype(const Tensor& rows);
/// Attribute `name` as a matrix of `rows` rows; Error(Value) unless its numbers fill it.
Tensor matrix_attribute(const Call& call, const char* name, int64_t rows, DType dtype);
Tensor vector_of(const std::vector<double>& values, DType dtype);

/// x [rows, features] times each of `outputs` rows of the attribute `coefficients`: [rows, outputs].
/// Error(Shape) unless those rows are as long as x's.
Tensor linear_products(const Call& call, const Tensor& x, int64_t outputs);

/// TreeEnsemble's numbers.
enum class PostTransform { None, Softmax, Logistic, SoftmaxZero, Probit };
/// The attribute post_transform as a text.
PostTransform post_transform_attribute(const Call& call);
/// [rows, scores] transformed row by row.
Tensor transform_scores(const Tensor& scores, PostTransform transform);
/// Error(Value) for a transform of one score by itself that ONNX's text asks for and ONNX Runtime leaves out.
void refuse_single_score(const Call& call, PostTransform transform);

/// The scores of two classes from the second's, [rows, 1]: the first's is 1 - s (`complement`) or -s.
/// Error(Value) for transforms of which ONNX says nothing there.
Tensor scores_of_two(const Call& call, const Tensor& second, bool complement, PostTransform transform);

/// Labels of classes, or categories: numbers, or strings by their ids.
struct Labels {
  std::vector<int64_t> numbers;
  bool strings;
  int64_t size() const { return static_cast<int64_t>(numbers.size()); }
};
/// The one of the attributes `name` and `strings` that is there; Error(Value) for none and for both.
Labels class_labels(const Call& call, const char* name, const char* strings = "classlabels_strings");
/// The labels at positions.
Value labels_at(const Labels& labels, const Tensor& positions);

} // namespace lathe::onnx
