#include "onnx/ops/ml/scores.hpp"

#include <fmt/format.h>

#include <array>
#include <numbers>

#include "lathe/functions.hpp"
#include "onnx/strings/traced.hpp"

namespace lathe::onnx {

Tensor features_of_any_shape(const Call& call, bool half) {
  const Tensor x = call.tensor(0);
  const DType d = x.dtype();
  if (d != DType::F32 && d != DType::F64 && d != DType::I32 && d != DType::I64 && !(half && d == DType::F16))
    call.fail(ErrorKind::DType, fmt::format("features of {}, expected f32, f64, i32 or i64", to_string(d)));
  return x;
}

Tensor feature_rows(const Call& call, bool half) {
  const Tensor x = features_of_any_shape(call, half);
  if (x.rank() == 1) return x.unsqueeze(0);
  if (x.rank() != 2)
    call.fail(ErrorKind::Shape, fmt::format("features {}, expected [rows, features]", to_string(x.shape())));
  return x;
}

DType computed_dtype(const Tensor& rows) { return rows.dtype() == DType::F64 ? DType::F64 : DType::F32; }

Tensor vector_of(const std::vector<double>& values, DType dtype) { return Tensor::from(values).cast(dtype); }

Tensor matrix_attribute(const Call& call, const char* name, int64_t rows, DType dtype) {
  const std::vector<double> values = call.numbers(name);
  const auto count = static_cast<int64_t>(values.size());
  if (rows < 1 || count == 0 || count % rows != 0)
    call.fail(ErrorKind::Value,
              fmt::format("{} has {} numbers, expected {} rows of them", name, count, rows));
  return vector_of(values, dtype).reshape({rows, count / rows});
}

Tensor linear_products(const Call& call, const Tensor& x, int64_t outputs) {
  const DType computed = computed_dtype(x);
  const Tensor coefficients = matrix_attribute(call, "coefficients", outputs, computed);
  if (coefficients.size(1) != x.size(1))
    call.fail(ErrorKind::Shape, fmt::format("coefficients {} for features {}, expected as many of both",
                                            to_string(coefficients.shape()), to_string(x.shape())));
  return x.cast(computed).matmul(coefficients.transpose());
}

// ---- transforms ----

PostTransform post_transform_attribute(const Call& call) {
  constexpr std::array<const char*, 5> names = {"NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT"};
  const std::string name = call.text("post_transform", "NONE");
  for (size_t k = 0; k < names.size(); ++k)
    if (name == names[k]) return static_cast<PostTransform>(k);
  call.fail(ErrorKind::Value,
            fmt::format("post_transform \"{}\", expected NONE, SOFTMAX, LOGISTIC, SOFTMAX_ZERO "
                        "or PROBIT",
                        name));
}

namespace {

/// The softmax of the scores that are not 0. Others stay 0, or nearly.
Tensor softmax_but_zeros(const Tensor& scores) {
  constexpr double kZero = 1e-7; // scores up to here count as 0
  const Tensor most = scores.max({1}, true);
  const Tensor zero = scores.abs() <= kZero;
  const Tensor powers = where(zero, scores * (-most).exp(), (scores - most).exp());
  return powers / where(zero, 0.0, powers).sum({1}, true);
}

/// The quantile of the normal distribution, by Winitzki's approximation of the inverse error function with
/// a = 0.147, as ONNX Runtime and ONNX's reference have it. The error is up to 2e-3 of the result.
Tensor probit(const Tensor& probability) {
  constexpr double kA = 0.147;
  const Tensor x = probability.cast(DType::F64) * 2.0 - 1.0; // a difference below cancels
  const Tensor log = ((1.0 - x) * (1.0 + x)).log();
  const Tensor half = 2.0 / (std::numbers::pi * kA) + log * 0.5;
  const Tensor size = ((half * half - log / kA).sqrt() - half).sqrt();
  return (where(x < 0.0, -size, size) * std::numbers::sqrt2).cast(probability.dtype());
}

} // namespace

Tensor transform_scores(const Tensor& scores, PostTransform transform) {
  switch (transform) {
  case PostTransform::None: break;
  case PostTransform::Softmax: return scores.softmax(1);
  case PostTransform::Logistic: return scores.sigmoid();
  case PostTransform::SoftmaxZero: return softmax_but_zeros(scores);
  case PostTransform::Probit: return probit(scores);
  }
  return scores;
}

void refuse_single_score(const Call& call, PostTransform transform) {
  if (transform != PostTransform::None && transform != PostTransform::Probit)
    call.fail(ErrorKind::Value,
              "post_transform of one score by itself, which ONNX Runtime leaves out: expected NONE "
              "or PROBIT");
}

Tensor scores_of_two(const Call& call, const Tensor& second, bool complement, PostTransform transform) {
  if (transform == PostTransform::Logistic) return concat({-second, second}, 1).sigmoid();
  if (transform != PostTransform::None)
    call.fail(ErrorKind::Value,
              "post_transform of two classes that one score decides, expected NONE or LOGISTIC");
  return concat({complement ? 1.0 - second : -second, second}, 1);
}

// ---- labels ----

Labels class_labels(const Call& call, const char* name, const char* strings) {
  const std::vector<std::string> texts = call.texts(strings);
  const std::vector<int64_t> numbers = call.integers(name, {});
  if (texts.empty() == numbers.empty())
    call.fail(ErrorKind::Value, fmt::format("{} and {} are {}, expected one of them", name, strings,
                                            texts.empty() ? "missing or empty" : "both there"));
  if (texts.empty()) return {numbers, false};
  return {ids_of(call, texts), true};
}

Value labels_at(const Labels& labels, const Tensor& positions) {
  bool counting = !labels.strings;
  for (int64_t k = 0; k < labels.size(); ++k) counting &= labels.numbers[static_cast<size_t>(k)] == k;
  const Tensor at = positions.cast(DType::I64);
  if (counting) return at;
  const Tensor found = Tensor::from(labels.numbers).take(at);
  return labels.strings ? Value::strings(found) : Value(found);
}

} // namespace lathe::onnx
