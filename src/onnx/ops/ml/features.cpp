// Preparing features: scaling, missing values, categories, columns.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "lathe/functions.hpp"
#include "onnx/ops/ml/scores.hpp"
#include "onnx/ops/tables.hpp"
#include "onnx/ops/values.hpp"
#include "onnx/strings/traced.hpp"

namespace lathe::onnx {
namespace {

/// Input 0 of any rank from 1 on.
Tensor features_of_any_rank(const Call& call) {
  const Tensor x = features_of_any_shape(call);
  if (x.rank() == 0) call.fail(ErrorKind::Shape, "a number by itself, expected features along an axis");
  return x;
}

/// Error(Value) unless an attribute has one number, or one for each feature of x's last axis.
void check_per_feature(const Call& call, const char* name, size_t count, const Tensor& x) {
  if (count != 1 && Expr(static_cast<int64_t>(count)) != x.size(-1))
    call.fail(ErrorKind::Value, fmt::format("{} has {} numbers for features {}, expected 1 or one for each",
                                            name, count, to_string(x.shape())));
}

std::vector<Value> scaler(Call& call) {
  const Tensor x = features_of_any_rank(call);
  const std::vector<double> offset = call.numbers("offset"), scale = call.numbers("scale");
  Tensor y = x.cast(computed_dtype(x));
  if (!offset.empty()) {
    check_per_feature(call, "offset", offset.size(), x);
    y = y - vector_of(offset, y.dtype());
  }
  if (!scale.empty()) {
    check_per_feature(call, "scale", scale.size(), x);
    y = y * vector_of(scale, y.dtype());
  }
  return {y.cast(DType::F32)};
}

std::vector<Value> normalizer(Call& call) {
  const Tensor given = features_of_any_rank(call);
  if (given.rank() > 2)
    call.fail(ErrorKind::Shape,
              fmt::format("features {}, expected [features] or [rows, features]", to_string(given.shape())));
  const Tensor x = given.cast(computed_dtype(given));
  const std::string norm = call.text("norm", "MAX");
  Tensor size;
  if (norm == "MAX")
    size = x.max({-1}, true); // not of magnitudes
  else if (norm == "L1")
    size = x.abs().sum({-1}, true);
  else if (norm == "L2")
    size = x.square().sum({-1}, true).sqrt();
  else
    call.fail(ErrorKind::Value, fmt::format("norm \"{}\", expected MAX, L1 or L2", norm));
  return {(x / where(size == 0.0, 1.0, size)).cast(DType::F32)};
}

std::vector<Value> imputer(Call& call) {
  const Tensor x = features_of_any_rank(call);
  if (is_float(x.dtype())) {
    call.ignore("replaced_value_int64"); // has a default, which exporters write
    const std::vector<double> imputed = call.numbers("imputed_value_floats");
    check_per_feature(call, "imputed_value_floats", imputed.size(), x);
    const double replaced = call.number("replaced_value_float", 0.0);
    const Tensor missing = std::isnan(replaced) ? x.isnan() : x == replaced;
    return {where(missing, vector_of(imputed, x.dtype()), x)};
  }
  call.ignore("replaced_value_float");
  const std::vector<int64_t> imputed = call.integers("imputed_value_int64s", {});
  check_per_feature(call, "imputed_value_int64s", imputed.size(), x);
  for (const int64_t value : imputed)
    if (x.dtype() == DType::I32 && value != static_cast<int32_t>(value))
      call.fail(ErrorKind::Value, fmt::format("imputed_value_int64s has {}, expected what i32 holds", value));
  const Tensor missing = compare(x, Comparison::Equal, call.integer("replaced_value_int64", 0));
  return {where(missing, Tensor::from(imputed).cast(x.dtype()), x)};
}

std::vector<Value> binarizer(Call& call) {
  const Tensor x = features_of_any_rank(call);
  return {(x > call.number("threshold", 0.0)).cast(x.dtype())};
}

std::vector<Value> one_hot_encoder(Call& call) {
  const Labels categories = class_labels(call, "cats_int64s", "cats_strings");
  const Tensor x = categories.strings ? string_ids(call, 0) : call.tensor(0);
  const std::set<int64_t> different(categories.numbers.begin(), categories.numbers.end());
  if (different.size() != categories.numbers.size())
    call.fail(ErrorKind::Value, "there is a category twice, expected different ones");
  Tensor found = x.cast(DType::I64).unsqueeze(-1) == Tensor::from(categories.numbers);
  if (is_float(x.dtype())) found = found & x.isfinite().unsqueeze(-1); // the cast gives some number for NaN
  if (call.integer("zeros", 1) == 0) {
    std::vector<Value> kept{found};
    if (call.look(found.any({-1}).all(), &kept).at(0) == 0)
      call.fail(ErrorKind::Value, "a value is none of the categories, expected one with zeros = 0");
    found = kept[0].tensor();
  }
  return {found.cast(DType::F32)};
}

std::vector<Value> array_feature_extractor(Call& call) {
  const Tensor x = call.tensor(0), index = call.tensor(1).flatten();
  if (x.rank() == 0) call.fail(ErrorKind::Shape, "a number by itself, expected an axis to take from");
  if (is_constant(index)) {
    const int64_t size = fixed_size(call, x, x.rank() - 1);
    for (const int64_t i : call.integers(1))
      if (i < 0 || i >= size)
        call.fail(ErrorKind::Value, fmt::format("index {}, expected one of {}", i, size));
  }
  const Tensor taken = x.take(index, -1);
  return {x.rank() == 1 ? taken.unsqueeze(0) : taken};
}

std::vector<Value> feature_vectorizer(Call& call) {
  const std::vector<int64_t> sizes = call.integers("inputdimensions", {});
  if (!sizes.empty() && sizes.size() != call.input_count())
    call.fail(ErrorKind::Value,
              fmt::format("inputdimensions has {} sizes, expected {}", sizes.size(), call.input_count()));
  std::vector<Tensor> parts;
  for (size_t k = 0; k < call.input_count(); ++k) {
    const Tensor given = call.tensor(k);
    if (given.rank() != 1 && given.rank() != 2)
      call.fail(ErrorKind::Shape, fmt::format("features {}, expected [features] or [rows, features]",
                                              to_string(given.shape())));
    if (!sizes.empty() && given.size(-1) != Expr(sizes[k]))
      call.fail(ErrorKind::Shape,
                fmt::format("inputdimensions has {} for features {}", sizes[k], to_string(given.shape())));
    parts.push_back((given.rank() == 1 ? given.unsqueeze(0) : given).cast(DType::F32));
  }
  if (parts.empty()) call.fail(ErrorKind::Value, "no inputs, expected one or more");
  return {concat(parts, 1)};
}

const OpRow kMlFeatureOps[] = {
    {"Scaler", 1, scaler, kMlDomain},
    {"Normalizer", 1, normalizer, kMlDomain},
    {"Imputer", 1, imputer, kMlDomain},
    {"Binarizer", 1, binarizer, kMlDomain},
    {"OneHotEncoder", 1, one_hot_encoder, kMlDomain},
    {"ArrayFeatureExtractor", 1, array_feature_extractor, kMlDomain},
    {"FeatureVectorizer", 1, feature_vectorizer, kMlDomain},
};

} // namespace

OpTable ml_feature_ops() { return kMlFeatureOps; }

} // namespace lathe::onnx
