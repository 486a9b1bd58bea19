// Linear models, support vector machines, features and labels of ai.onnx.ml, against plain loops.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "support/onnx_ml.hpp"
#include "support/onnx_numbers.hpp"

using namespace lathe;
using namespace lathe::test;

namespace {

using Doubles = std::vector<double>;
using Integers = std::vector<int64_t>;

const double kMissing = std::numeric_limits<double>::quiet_NaN();

Tensor rows_of(const Doubles& values, int64_t columns, DType dtype = DType::F32) {
  return Tensor::from(values, {static_cast<int64_t>(values.size()) / columns, columns}).cast(dtype);
}

Doubles random_numbers(std::mt19937& random, size_t count) {
  Doubles values(count);
  for (double& v : values) v = static_cast<int>(random() % 65) / 16.0 - 2;
  return values;
}

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

double dot(const double* a, const double* b, int64_t count) {
  double sum = 0;
  for (int64_t k = 0; k < count; ++k) sum += a[k] * b[k];
  return sum;
}

/// Each row through `transform`.
Doubles transformed(const Doubles& scores, int64_t columns, const std::string& transform) {
  Doubles out;
  for (size_t row = 0; row < scores.size(); row += columns) {
    double sum = 0;
    for (int64_t k = 0; k < columns; ++k) sum += std::exp(scores[row + k]);
    for (int64_t k = 0; k < columns; ++k) {
      const double s = scores[row + k];
      out.push_back(transform == "LOGISTIC" ? sigmoid(s) : transform == "SOFTMAX" ? std::exp(s) / sum : s);
    }
  }
  return out;
}

Integers first_most(const Doubles& scores, int64_t columns, const Integers& labels) {
  Integers out;
  for (auto row = scores.begin(); row != scores.end(); row += columns)
    out.push_back(labels[std::max_element(row, row + columns) - row]);
  return out;
}

double kernel(const std::string& type, const double* a, const double* b, int64_t count,
              const Doubles& params) {
  if (type == "RBF") {
    double sum = 0;
    for (int64_t k = 0; k < count; ++k) sum += (a[k] - b[k]) * (a[k] - b[k]);
    return std::exp(-params[0] * sum);
  }
  const double product = dot(a, b, count);
  if (type == "POLY") return std::pow(params[0] * product + params[1], params[2]);
  if (type == "SIGMOID") return std::tanh(params[0] * product + params[1]);
  return product;
}

/// Probabilities of classes: the minimum of sum over pairs (r[j][i] p[i] - r[i][j] p[j])^2, sum p = 1,
/// approached class by class until no class is off by 0.005 / classes.
Doubles coupled(const std::vector<Doubles>& r) {
  const size_t classes = r.size();
  Doubles p(classes, 1.0 / static_cast<double>(classes));
  const auto gradient = [&](size_t i) {
    double sum = 0;
    for (size_t j = 0; j < classes; ++j)
      if (j != i) sum += r[j][i] * (r[j][i] * p[i] - r[i][j] * p[j]);
    return sum;
  };
  for (int sweep = 0; sweep < 100; ++sweep) {
    const auto mean = [&] {
      double sum = 0;
      for (size_t i = 0; i < classes; ++i) sum += p[i] * gradient(i);
      return sum;
    };
    double worst = 0;
    for (size_t i = 0; i < classes; ++i) worst = std::max(worst, std::abs(gradient(i) - mean()));
    if (worst < 0.005 / static_cast<double>(classes)) break;
    for (size_t i = 0; i < classes; ++i) {
      double own = 0;
      for (size_t j = 0; j < classes; ++j)
        if (j != i) own += r[j][i] * r[j][i];
      p[i] += (mean() - gradient(i)) / own;
      double sum = 0;
      for (double v : p) sum += v;
      for (double& v : p) v /= sum;
    }
  }
  return p;
}

} // namespace

TEST_CASE("LinearRegressor and LinearClassifier: targets, transforms, dtypes, any number of rows") {
  std::mt19937 random(1);
  for (const int64_t outputs : {1, 2, 5}) {
    const int64_t features = 3, rows = 5;
    const Doubles x = random_numbers(random, rows * features), w = random_numbers(random, outputs * features),
                  b = random_numbers(random, outputs);
    Doubles scores;
    for (int64_t row = 0; row < rows; ++row)
      for (int64_t k = 0; k < outputs; ++k)
        scores.push_back(dot(&x[row * features], &w[k * features], features) + b[k]);
    const Attributes model{floats_attribute("coefficients", w), floats_attribute("intercepts", b)};
    for (const std::string transform : {"NONE", "SOFTMAX", "LOGISTIC"}) {
      if (outputs == 1 && transform != "NONE") continue;
      Attributes attributes = model;
      attributes.push_back(attribute("targets", outputs));
      attributes.push_back(attribute("post_transform", transform.c_str()));
      for (const DType dtype : {DType::F32, DType::F64})
        check_close(ml_node("LinearRegressor", {rows_of(x, features, dtype)}, attributes, 1, 1, "n")[0],
                    transformed(scores, outputs, transform));
      if (outputs == 1) continue;
      const Integers labels(attributes.size() == 4 ? Integers{9, 4, 5, 6, 7} : Integers{});
      attributes = model;
      attributes.push_back(attribute("post_transform", transform.c_str()));
      attributes.push_back(attribute("classlabels_ints", Integers(labels.begin(), labels.begin() + outputs)));
      const auto got = ml_node("LinearClassifier", {rows_of(x, features)}, attributes, 2, 1);
      CHECK(integers(got[0]) == first_most(scores, outputs, labels));
      check_close(got[1], transformed(scores, outputs, transform));
    }
  }
}

TEST_CASE("LinearClassifier: one row of coefficients for two classes") {
  const Attributes model{floats_attribute("coefficients", {0.5, -1}), floats_attribute("intercepts", {0.25}),
                         attribute("classlabels_ints", Integers{8, 2})};
  const Tensor x = rows_of({1, 0, 0, 1, 0.5, 0.5}, 2);
  auto got = ml_node("LinearClassifier", {x}, model, 2, 1);
  CHECK(integers(got[0]) == Integers{2, 8, 8});
  check_close(got[1], {0.25, 0.75, 1.75, -0.75, 1, 0});
  Attributes logistic = model;
  logistic.push_back(attribute("post_transform", "LOGISTIC"));
  got = ml_node("LinearClassifier", {x.cast(DType::F64)}, logistic, 2, 1);
  check_close(got[1], {sigmoid(-0.75), sigmoid(0.75), sigmoid(0.75), sigmoid(-0.75), 0.5, 0.5});
  Attributes softmax = model;
  softmax.push_back(attribute("post_transform", "SOFTMAX"));
  CHECK(contains(ml_error("LinearClassifier", {x}, softmax), "one score decides"));
}

TEST_CASE("LinearClassifier: coefficients beyond those of the intercepts do not count") {
  const Attributes three{floats_attribute("coefficients", {1, 0, 0, 1, -1, -1, 9, 9, 9, 9, 9, 9}),
                         floats_attribute("intercepts", {0, 0, 1}), attribute("classlabels_ints", Integers{0, 1, 2})};
  const auto got = ml_node("LinearClassifier", {rows_of({1, 0, 0, 2, 0, 0}, 2)}, three, 2, 1);
  CHECK(integers(got[0]) == Integers{0, 1, 2});
  check_close(got[1], {1, 0, 0, 0, 2, -1, 0, 0, 1});
  const Attributes few{floats_attribute("coefficients", {1, 0, 0, 1, -1}), floats_attribute("intercepts", {0, 0, 1}),
                       attribute("classlabels_ints", Integers{0, 1, 2})};
  CHECK(contains(ml_error("LinearClassifier", {rows_of({1, 0}, 2)}, few), "LinearClassifier"));
}

TEST_CASE("PROBIT is near the quantile of the normal distribution") {
  // P(X < q) is p.
  const Doubles p{0.001, 0.1, 0.5, 0.75, 0.999}, q{-3.090232, -1.281552, 0, 0.674490, 3.090232};
  const auto got = ml_node("LinearRegressor", {rows_of(p, 1)},
                           {floats_attribute("coefficients", {1}), attribute("post_transform", "PROBIT")});
  check_close(got[0], q, 2e-3);
}

TEST_CASE("SVMRegressor: kernels, one class, linear without vectors") {
  std::mt19937 random(2);
  const int64_t features = 3, rows = 4, vectors = 5;
  const Doubles x = random_numbers(random, rows * features),
                support = random_numbers(random, vectors * features),
                weights = random_numbers(random, vectors), params{0.25, 0.5, 3};
  for (const std::string type : {"LINEAR", "POLY", "RBF", "SIGMOID"})
    for (const bool one_class : {false, true}) {
      Doubles expected;
      for (int64_t row = 0; row < rows; ++row) {
        double sum = -0.75;
        for (int64_t v = 0; v < vectors; ++v)
          sum += weights[v] * kernel(type, &x[row * features], &support[v * features], features, params);
        expected.push_back(one_class ? (sum > 0 ? 1 : -1) : sum);
      }
      check_close(
          ml_node("SVMRegressor", {rows_of(x, features)},
                  {floats_attribute("coefficients", weights), floats_attribute("support_vectors", support),
                   attribute("n_supports", vectors), floats_attribute("rho", {-0.75}),
                   floats_attribute("kernel_params", params), attribute("kernel_type", type.c_str()),
                   attribute("one_class", one_class ? 1 : 0)})[0],
          expected);
    }
  check_close(ml_node("SVMRegressor", {rows_of({1, 2, 3}, 3)},
                      {floats_attribute("coefficients", {1, 0.5, -2}), floats_attribute("rho", {0.25}),
                       attribute("kernel_type", "RBF"), floats_attribute("kernel_params", params)})[0],
              {-3.75});
}

TEST_CASE("SVMClassifier: pairs of classes vote; scores are of pairs, or probabilities of classes") {
  std::mt19937 random(3);
  const int64_t features = 2, rows = 6;
  const Doubles params{0.5, 0.25, 2};
  for (const int64_t classes : {2, 3, 4})
    for (const bool estimates : {false, true}) {
      CAPTURE(classes);
      CAPTURE(estimates);
      Integers per_class(classes), labels(classes), owner;
      for (int64_t c = 0; c < classes; ++c) {
        per_class[c] = 1 + static_cast<int64_t>(random() % 3);
        labels[c] = 10 - c;
        owner.insert(owner.end(), per_class[c], c);
      }
      const auto vectors = static_cast<int64_t>(owner.size()), pairs = classes * (classes - 1) / 2;
      const Doubles x = random_numbers(random, rows * features),
                    support = random_numbers(random, vectors * features),
                    weights = random_numbers(random, (classes - 1) * vectors),
                    rho = random_numbers(random, pairs), a = random_numbers(random, pairs),
                    b = random_numbers(random, pairs);
      Doubles expected;
      Integers expected_labels;
      for (int64_t row = 0; row < rows; ++row) {
        Integers votes(classes);
        std::vector<Doubles> r(classes, Doubles(classes));
        size_t pair = 0;
        for (int64_t i = 0; i < classes; ++i)
          for (int64_t j = i + 1; j < classes; ++j, ++pair) {
            double score = rho[pair];
            for (int64_t v = 0; v < vectors; ++v) {
              if (owner[v] != i && owner[v] != j) continue;
              const int64_t other = owner[v] == i ? j - 1 : i; // the row of weights against the other class
              score += weights[other * vectors + v] *
                       kernel("RBF", &x[row * features], &support[v * features], features, params);
            }
            ++votes[score > 0 ? i : j];
            r[i][j] = std::clamp(sigmoid(-(score * a[pair] + b[pair])), 1e-7, 1 - 1e-7);
            r[j][i] = 1 - r[i][j];
            if (!estimates && classes == 2) expected.push_back(-score);
            if (!estimates) expected.push_back(score);
          }
        if (estimates)
          for (double p : coupled(r)) expected.push_back(p);
        expected_labels.push_back(labels[std::max_element(votes.begin(), votes.end()) - votes.begin()]);
      }
      Attributes attributes{
          floats_attribute("coefficients", weights), floats_attribute("support_vectors", support),
          attribute("vectors_per_class", per_class), floats_attribute("rho", rho),
          floats_attribute("kernel_params", params), attribute("kernel_type", "RBF"),
          attribute("classlabels_ints", labels)};
      if (estimates) attributes.push_back(floats_attribute("prob_a", a));
      if (estimates) attributes.push_back(floats_attribute("prob_b", b));
      const auto got = ml_node("SVMClassifier", {rows_of(x, features)}, attributes, 2);
      CHECK(integers(got[0]) == expected_labels);
      check_close(got[1], expected);
    }
}

TEST_CASE("Models that do not fit are refused") {
  const Tensor x = rows_of({1, 2}, 2);
  const Attribute rho = floats_attribute("rho", {1}), params = floats_attribute("kernel_params", {1, 1, 1}),
                  labels = attribute("classlabels_ints", Integers{0, 1}),
                  support = floats_attribute("support_vectors", {1, 2, 3, 4}),
                  weights = floats_attribute("coefficients", {1, 2});
  const auto vectors = [](const Integers& counts) { return attribute("vectors_per_class", counts); };
  CHECK(ml_error("SVMClassifier", {x}, {rho, params, labels, support, weights, vectors({1, 1})}) == "");
  CHECK(contains(ml_error("SVMClassifier", {x}, {rho, params, labels, support, weights, vectors({1, -1})}),
                 "vectors_per_class"));
  CHECK(contains(
      ml_error("SVMClassifier", {x}, {rho, params, labels, support, weights, vectors({1, int64_t{1} << 62})}),
      "vectors_per_class"));
  CHECK(contains(ml_error("SVMClassifier", {x}, {rho, params, labels, support, weights, vectors({1, 2})}),
                 "2 coefficients"));
  CHECK(contains(ml_error("SVMClassifier", {x}, {rho, params, labels, weights}), "two classes"));
  CHECK(contains(ml_error("SVMRegressor", {x}, {rho, params, support, weights, attribute("n_supports", 3)}),
                 "expected 3"));
  CHECK(contains(ml_error("SVMRegressor", {x}, {rho, weights, attribute("post_transform", "LOGISTIC")}),
                 "post_transform"));
  CHECK(contains(ml_error("LinearRegressor", {x}, {floats_attribute("coefficients", {1, 2, 3})}),
                 "coefficients"));
  CHECK(contains(ml_error("LinearRegressor", {x}, {weights, attribute("targets", 0)}), "0 rows"));
  CHECK(contains(ml_error("LinearRegressor", {x}, {weights, attribute("post_transform", "SOFTMAX")}),
                 "one score by itself"));
  CHECK(
      contains(ml_error("LinearClassifier", {x}, {weights, attribute("classlabels_ints", Integers{1, 2, 3})}),
               "3 classes"));
}

TEST_CASE("Scaler, Normalizer, Imputer and Binarizer, in every dtype") {
  const Doubles x{1, -2, 3, 0, 0, 0, -4, -1, 2};
  for (const DType dtype : {DType::F32, DType::F64, DType::I32, DType::I64}) {
    CAPTURE(to_string(dtype));
    const Tensor fed = rows_of(x, 3, dtype);
    auto y = ml_node("Scaler", {fed},
                     {floats_attribute("offset", {1, 0.5, -1}), floats_attribute("scale", {2, 4, 0.5})});
    CHECK(y[0].dtype() == DType::F32);
    check_close(y[0], {0, -10, 2, -2, -2, 0.5, -10, -6, 1.5});
    check_close(
        ml_node("Scaler", {fed}, {floats_attribute("offset", {1}), floats_attribute("scale", {2})})[0],
        {0, -6, 4, -2, -2, -2, -10, -4, 2});
    check_close(ml_node("Normalizer", {fed}, {})[0], {1 / 3., -2 / 3., 1, 0, 0, 0, -2, -0.5, 1});
    check_close(ml_node("Normalizer", {fed}, {attribute("norm", "L1")})[0],
                {1 / 6., -2 / 6., 3 / 6., 0, 0, 0, -4 / 7., -1 / 7., 2 / 7.});
    const double a = std::sqrt(14), b = std::sqrt(21);
    check_close(ml_node("Normalizer", {fed}, {attribute("norm", "L2")})[0],
                {1 / a, -2 / a, 3 / a, 0, 0, 0, -4 / b, -1 / b, 2 / b});
    y = ml_node("Binarizer", {fed}, {attribute("threshold", 1.0)});
    CHECK(y[0].dtype() == dtype);
    check_close(y[0], {0, 0, 1, 0, 0, 0, 0, 0, 1});
    y = is_float(dtype) ? ml_node("Imputer", {fed}, {floats_attribute("imputed_value_floats", {7, 8, 9})})
                        : ml_node("Imputer", {fed}, {attribute("imputed_value_int64s", Integers{7, 8, 9})});
    CHECK(y[0].dtype() == dtype);
    check_close(y[0], {1, -2, 3, 7, 8, 9, -4, -1, 2});
  }
  const Tensor missing = rows_of({kMissing, 1, 2, kMissing}, 2);
  check_close(ml_node("Imputer", {missing},
                      {floats_attribute("imputed_value_floats", {5}),
                       attribute("replaced_value_float", kMissing)})[0],
              {5, 1, 2, 5});
  check_close(
      ml_node("Imputer", {missing},
              {floats_attribute("imputed_value_floats", {5, 6}), attribute("replaced_value_float", 2.0)})[0],
      {kMissing, 1, 5, kMissing});
  CHECK(contains(ml_error("Imputer", {missing}, {floats_attribute("imputed_value_floats", {5, 6, 7})}),
                 "3 numbers"));
  CHECK(contains(ml_error("Imputer", {missing}, {attribute("imputed_value_int64s", Integers{5})}),
                 "0 numbers"));
  CHECK(
      contains(ml_error("Scaler", {missing}, {floats_attribute("scale", {5, 6, 7})}), "scale has 3 numbers"));
  CHECK(contains(ml_error("Normalizer", {missing}, {attribute("norm", "L3")}), "\"L3\""));
  CHECK(contains(ml_error("Scaler", {missing.cast(DType::F16)}, {}), "f16"));
}

TEST_CASE("OneHotEncoder, ArrayFeatureExtractor and FeatureVectorizer") {
  const Attribute known = attribute("cats_int64s", Integers{5, -1, 0});
  const Doubles expected{0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1};
  for (const DType dtype : {DType::F32, DType::F64, DType::I32, DType::I64})
    check_close(ml_node("OneHotEncoder", {rows_of({-1, 3, 5, 0}, 2, dtype)}, {known})[0], expected);
  // The whole part of a number counts, and NaN is no category.
  check_close(ml_node("OneHotEncoder", {rows_of({-1.5, 5.9, kMissing, 0.5}, 4)}, {known})[0],
              {0, 1, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1});
  const Attribute strict = attribute("zeros", 0);
  check_close(ml_node("OneHotEncoder", {Tensor::from({-1.f, 0.f})}, {known, strict})[0], {0, 1, 0, 0, 0, 1});
  CHECK(contains(ml_error("OneHotEncoder", {Tensor::from({-1.f, 3.f})}, {known, strict}),
                 "none of the categories"));
  CHECK(contains(ml_error("OneHotEncoder", {Tensor::from({1.f})}, {texts_attribute("cats_strings", {"a"})}),
                 "strings"));

  const Tensor x = Tensor::arange(12).reshape({2, 2, 3});
  const auto taken = ml_node("ArrayFeatureExtractor", {x, Tensor::from<int64_t>({2, 0})}, {})[0];
  CHECK(taken.shape() == Shape{2, 2, 2});
  CHECK(integers(taken) == Integers{2, 0, 5, 3, 8, 6, 11, 9});
  CHECK(ml_node("ArrayFeatureExtractor", {Tensor::arange(3), Tensor::from<int64_t>({1, 1})}, {})[0].shape() ==
        Shape{1, 2});

  const Tensor a = rows_of({1, 2, 3, 4}, 2, DType::I32), b = rows_of({5, 6}, 1, DType::I32);
  check_close(ml_node("FeatureVectorizer", {a, b}, {attribute("inputdimensions", Integers{2, 1})})[0],
              {1, 2, 5, 3, 4, 6});
  CHECK(contains(ml_error("FeatureVectorizer", {a, b}, {attribute("inputdimensions", Integers{1, 1})}),
                 "inputdimensions has 1"));
}

TEST_CASE("LabelEncoder: keys and values of each type, NaN, repeated keys, defaults") {
  const auto ints = [](const char* name, const Integers& v) { return attribute(name, v); };
  const Tensor x = Tensor::from<int64_t>({4, 1, 9, 1}).reshape({2, 2});
  CHECK(integers(ml_node("LabelEncoder", {x}, {ints("keys_int64s", {9, 1}), ints("values_int64s", {70, 80})},
                         1, 2)[0]) == Integers{-1, 80, 70, 80});
  check_close(ml_node("LabelEncoder", {x},
                      {ints("keys_int64s", {9, 1}), floats_attribute("values_floats", {0.5, 1.5}),
                       attribute("default_float", 2.5)},
                      1, 2)[0],
              {2.5, 1.5, 0.5, 1.5});
  // The first of a key counts in version 2, the last in version 4.
  const Attributes repeated{ints("keys_int64s", {1, 4, 1}), ints("values_int64s", {10, 20, 30})};
  CHECK(integers(ml_node("LabelEncoder", {x}, repeated, 1, 2)[0]) == Integers{20, 10, -1, 10});
  CHECK(integers(ml_node("LabelEncoder", {x}, repeated, 1, 4)[0]) == Integers{20, 30, -1, 30});
  // NaN is a key, and so are numbers above all others and 0.
  const Attributes floats{floats_attribute("keys_floats", {0, kMissing, 3}), ints("values_int64s", {1, 2, 3}),
                          attribute("default_int64", 7)};
  CHECK(integers(ml_node("LabelEncoder", {Tensor::from({-0.f, static_cast<float>(kMissing), 3.f, 4.f, -1.f})},
                         floats, 1, 2)[0]) == Integers{1, 2, 3, 7, 7});
  CHECK(integers(ml_node("LabelEncoder", {Tensor::from({static_cast<float>(kMissing), 0.f})},
                         {floats_attribute("keys_floats", {0}), ints("values_int64s", {1})}, 1, 2)[0]) ==
        Integers{-1, 1});

  const auto tensors = [](auto key, auto value) {
    using K = decltype(key);
    using V = decltype(value);
    const Attributes attributes{attribute("keys_tensor", tensor_proto<K>({3}, {K(5), K(2), K(7)})),
                                attribute("values_tensor", tensor_proto<V>({3}, {V(1), V(2), V(3)})),
                                attribute("default_tensor", tensor_proto<V>({1}, {V(9)}))};
    const auto y =
        ml_node("LabelEncoder", {Tensor::from<K>({K(2), K(7), K(5), K(8), K(0)})}, attributes, 1, 4)[0];
    CHECK(y.dtype() == dtype_of<V>());
    CHECK(integers(y) == Integers{2, 3, 1, 9, 9});
  };
  tensors(double(), int64_t());
  tensors(int16_t(), double());
  tensors(int32_t(), int16_t());
  tensors(float(), int32_t());

  CHECK(contains(ml_error("LabelEncoder", {x}, {ints("keys_int64s", {1}), ints("values_int64s", {1, 2})}, 2),
                 "2 values"));
  CHECK(contains(
      ml_error("LabelEncoder", {x}, {floats_attribute("keys_floats", {1}), ints("values_int64s", {1})}, 2),
      "i64 looked up in keys of f32"));
}

TEST_CASE("Newer versions are not guessed") {
  const Tensor x = rows_of({0.25, 0.75}, 2);
  CHECK(contains(ml_error("Scaler", {x}, {}, 6), "expected opset 5 or earlier"));
}
