// First and second derivatives of every function of one tensor, at 0, at the joints of the pieces that it is
// composed of, where its parts overflow and at infinities, against formulas in double precision. On every
// device, in every float dtype. docs/numbers.md states the choices at points without a derivative.
#include <doctest/doctest.h>

#include <cmath>
#include <functional>
#include <numbers>
#include <string>
#include <vector>

#include "lathe/gradient.hpp"
#include "support/devices.hpp"

using namespace lathe;

namespace {

using Formula = double (*)(double);

struct Case {
  const char* name;
  std::function<Tensor(const Tensor&)> build;
  Formula first, second;                   // null: not looked at
  double low = -INFINITY, high = INFINITY; // where the function is defined
};

constexpr double kInf = INFINITY;
double sigmoid(double x) { return x < 0 ? std::exp(x) / (1 + std::exp(x)) : 1 / (1 + std::exp(-x)); }
double slope(double x) { return sigmoid(x) * sigmoid(-x); }             // of the sigmoid
double bend(double x) { return slope(x) * (sigmoid(-x) - sigmoid(x)); } // and its slope
/// x * f where f has died away long before x overflows.
double dying(double x, double f) { return f == 0 ? 0 : x * f; }
/// Below 1 by less than any format's digit: where a derivative becomes infinite.
constexpr double kInside = 1 - 0x1p-53;
double over_cosine(double x) { return 1 / std::sqrt((1 - x) * (1 + x)); }
double density(double x) { return std::exp(-x * x / 2) / std::sqrt(2 * std::numbers::pi); }

// gelu's tanh form: x s(u), u = c (x + k x^3).
constexpr double kCube = 0.044715;
const double kScale = 2 * std::sqrt(2 / std::numbers::pi);
double gelu_tanh_1(double x) {
  const double u = kScale * (x + kCube * x * x * x), du = kScale * (1 + 3 * kCube * x * x);
  return sigmoid(u) + dying(x * du, slope(u));
}
double gelu_tanh_2(double x) {
  const double u = kScale * (x + kCube * x * x * x), du = kScale * (1 + 3 * kCube * x * x);
  const double ddu = kScale * 6 * kCube * x;
  return dying(2 * du + x * ddu, slope(u)) + dying(x * du * du, bend(u));
}

const std::vector<Case>& cases() {
  static const auto zero = [](double) { return 0.0; };
  static const std::vector<Case> all = {
      {"abs", [](const Tensor& x) { return x.abs(); }, [](double x) { return double(x > 0) - (x < 0); },
       zero},
      {"sign", [](const Tensor& x) { return x.sign(); }, zero, zero},
      {"neg", [](const Tensor& x) { return x.neg(); }, [](double) { return -1.0; }, zero},
      {"floor", [](const Tensor& x) { return x.floor(); }, zero, zero},
      {"ceil", [](const Tensor& x) { return x.ceil(); }, zero, zero},
      {"round", [](const Tensor& x) { return x.round(); }, zero, zero},
      {"relu", [](const Tensor& x) { return x.relu(); }, [](double x) { return double(x > 0); }, zero},
      {"leaky_relu", [](const Tensor& x) { return x.leaky_relu(0.25); },
       [](double x) { return x > 0    ? 1
                             : x == 0 ? 0.625
                                      : 0.25; }, zero},
      {"elu", [](const Tensor& x) { return x.elu(0.5); },
       [](double x) { return x > 0    ? 1
                             : x == 0 ? 0.75
                                      : 0.5 * std::exp(x); }, nullptr},
      {"clamp", [](const Tensor& x) { return x.clamp(-3, 0.25); },
       [](double x) { return x == -3 || x == 0.25 ? 0.5 : -3 < x && x < 0.25; }, zero},
      {"hardswish", [](const Tensor& x) { return x.hardswish(); },
       [](double x) {
         return std::fabs(x) == 3 ? 0.5 + x / 4 : x < -3 ? 0 : x < 3 ? x / 3 + 0.5 : 1;
       },
       nullptr},
      {"square", [](const Tensor& x) { return x.square(); }, [](double x) { return 2 * x; },
       [](double) { return 2.0; }},
      {"sqrt", [](const Tensor& x) { return x.sqrt(); }, [](double x) { return 0.5 / std::sqrt(x); }, nullptr,
       0},
      {"exp", [](const Tensor& x) { return x.exp(); }, std::exp, std::exp},
      {"exp2", [](const Tensor& x) { return x.exp2(); },
       [](double x) { return std::numbers::ln2 * std::exp2(x); }, nullptr},
      {"expm1", [](const Tensor& x) { return x.expm1(); }, std::exp, std::exp},
      {"log", [](const Tensor& x) { return x.log(); }, [](double x) { return 1 / x; }, nullptr, 0},
      {"log2", [](const Tensor& x) { return x.log2(); }, [](double x) { return std::numbers::log2e / x; },
       nullptr, 0},
      {"log10", [](const Tensor& x) { return x.log10(); }, [](double x) { return std::numbers::log10e / x; },
       nullptr, 0},
      {"log1p", [](const Tensor& x) { return x.log1p(); }, [](double x) { return 1 / (1 + x); },
       [](double x) { return -1 / ((1 + x) * (1 + x)); }, -0.75},
      {"sin", [](const Tensor& x) { return x.sin(); }, [](double x) { return std::cos(x); },
       [](double x) { return -std::sin(x); }, -1e5, 1e5},
      {"cos", [](const Tensor& x) { return x.cos(); }, [](double x) { return -std::sin(x); },
       [](double x) { return -std::cos(x); }, -1e5, 1e5},
      {"tan", [](const Tensor& x) { return x.tan(); }, [](double x) { return 1 + std::tan(x) * std::tan(x); },
       [](double x) { return 2 * std::tan(x) * (1 + std::tan(x) * std::tan(x)); }, -1e5, 1e5},
      {"sinh", [](const Tensor& x) { return x.sinh(); }, std::cosh, std::sinh},
      {"cosh", [](const Tensor& x) { return x.cosh(); }, std::sinh, std::cosh},
      {"tanh", [](const Tensor& x) { return x.tanh(); }, [](double x) { return 4 * slope(2 * x); },
       [](double x) { return 8 * bend(2 * x); }},
      {"asin", [](const Tensor& x) { return x.asin(); }, over_cosine,
       [](double x) { return x * std::pow(over_cosine(x), 3); }, -kInside, kInside},
      {"acos", [](const Tensor& x) { return x.acos(); }, [](double x) { return -over_cosine(x); },
       [](double x) { return -x * std::pow(over_cosine(x), 3); }, -kInside, kInside},
      {"atan", [](const Tensor& x) { return x.atan(); }, [](double x) { return 1 / (1 + x * x); },
       [](double x) { return dying(-2 * x, std::pow(1 + x * x, -2)); }},
      {"asinh", [](const Tensor& x) { return x.asinh(); }, [](double x) { return 1 / std::hypot(1, x); },
       [](double x) { return dying(-x, std::pow(1 + x * x, -1.5)); }},
      {"acosh", [](const Tensor& x) { return x.acosh(); },
       [](double x) { return 1 / std::sqrt((x - 1) * (x + 1)); },
       [](double x) { return dying(-x, std::pow((x - 1) * (x + 1), -1.5)); }, 1},
      {"atanh", [](const Tensor& x) { return x.atanh(); }, [](double x) { return 1 / ((1 - x) * (1 + x)); },
       [](double x) { return 2 * x * std::pow((1 - x) * (1 + x), -2); }, -kInside, kInside},
      {"erf", [](const Tensor& x) { return x.erf(); },
       [](double x) { return 2 * std::numbers::inv_sqrtpi * std::exp(-x * x); },
       [](double x) { return dying(-4 * std::numbers::inv_sqrtpi * x, std::exp(-x * x)); }, -1e10, 1e10},
      {"sigmoid", [](const Tensor& x) { return x.sigmoid(); }, slope, bend},
      {"softplus", [](const Tensor& x) { return x.softplus(); }, sigmoid, slope},
      {"silu", [](const Tensor& x) { return x.silu(); },
       [](double x) { return sigmoid(x) + dying(x, slope(x)); },
       [](double x) { return 2 * slope(x) + dying(x, bend(x)); }},
      {"gelu", [](const Tensor& x) { return x.gelu(); },
       [](double x) { return std::erfc(-x / std::numbers::sqrt2) / 2 + dying(x, density(x)); },
       [](double x) { return dying(2 - x * x, density(x)); }},
      {"gelu_tanh", [](const Tensor& x) { return x.gelu(true); }, gelu_tanh_1, gelu_tanh_2},
  };
  return all;
}

/// 0 and what lies beside it, the joints of all functions and what lies beside them, powers that overflow
/// somewhere, and the ends.
std::vector<double> points(DType dtype) {
  const double u = dtype == DType::F64   ? 0x1p-52
                   : dtype == DType::F32 ? 0x1p-23
                   : dtype == DType::F16 ? 0x1p-10
                                         : 0x1p-7;
  std::vector<double> all{0, -0.0, 1e-30, -1e-30, 1e-6, -1e-6, kInf, -kInf};
  for (const double joint :
       {0.25, 0.35, 0.5, 0.6, 0.95, 1.0, 1.5, 2.0, 2.5, 3.0, 3.95, 6.0, 8.0, 10.0, 16.0, 20.0, 40.0})
    for (const double near : {joint, joint * (1 - u), joint * (1 + u)}) {
      all.push_back(near);
      all.push_back(-near);
    }
  for (const double far : {64.0, 85.0, 88.0, 89.0, 100.0, 700.0, 800.0, 1e4, 6e4, 1e9, 1e20, 3e38})
    if (dtype != DType::F16 || far < 65504) {
      all.push_back(far);
      all.push_back(-far);
    }
  return all;
}

double largest(DType d) { return d == DType::F64 ? 1.7e308 : d == DType::F16 ? 65504 : 3.4e38; }

/// Whether `got` is `want` within a part of the larger of it and what the function's terms round to near it.
bool is_near(double got, double want, DType dtype, double least) {
  if (std::isnan(got) || std::isnan(want)) return false;
  if (std::fabs(want) >= 0.99 * largest(dtype))
    return std::fabs(got) >= 0.98 * largest(dtype) && (got > 0) == (want > 0);
  const double part = dtype == DType::F64   ? 2e-12
                      : dtype == DType::F32 ? 3e-5
                      : dtype == DType::F16 ? 2e-3
                                            : 1.6e-2;
  return std::fabs(got - want) <= part * std::max(std::fabs(want), least);
}

void check_order(const Case& c, const std::string& device, DType dtype, int order) {
  const Formula formula = order == 1 ? c.first : c.second;
  if (!formula) return;
  std::vector<double> at;
  for (const double p : points(dtype))
    if (p >= c.low && p <= c.high) at.push_back(p);
  const Tensor x = Tensor::input("x", {static_cast<int64_t>(at.size())}, dtype);
  Tensor d = gradients(c.build(x), {x})[0];
  if (order == 2) d = gradients(d, {x})[0];
  const Tensor values = Tensor::from(at).cast(dtype);
  NamedTensors inputs{{"x", values}};
  if (d.inputs().empty()) inputs.clear(); // the same everywhere
  const auto got = compile({{"d", d.cast(DType::F64)}}, on(device))(inputs).at("d").to_vector<double>();
  const auto rounded = values.cast(DType::F64).to_vector<double>();
  for (size_t k = 0; k < at.size(); ++k) {
    const double want = formula(rounded[k]);
    INFO(std::string(c.name), " order ", order, " of ", std::string(to_string(dtype)), " on ", device, " at ",
         rounded[k], ": ", got[k], ", expected ", want);
    // Sums of terms near 1 that cancel to less than a hundredth of them are not looked at more closely.
    CHECK(is_near(got[k], want, dtype, 1e-2));
  }
}

} // namespace

TEST_CASE("derivatives at joints, at overflows and at infinities") {
  for (const std::string& device : present_devices()) {
    if (device == "opencl" || device == "c") continue; // a second for each kernel: see below
    for (const Case& c : cases())
      for (const DType dtype : {DType::F32, DType::F64, DType::F16, DType::BF16})
        for (const int order : {1, 2}) check_order(c, device, dtype, order);
  }
}

TEST_CASE("derivatives at joints where a compiler is slow") {
  for (const std::string device : {"opencl", "c"}) {
    if (!has_device(device)) continue;
    for (const Case& c : cases())
      if (std::string(c.name) == "tanh" || std::string(c.name) == "abs")
        check_order(c, device, DType::F32, 1);
  }
}

TEST_CASE("cosine and its derivatives have full precision at large angles in f64") {
  const Tensor x = Tensor::from({1e10, 12345678.9, -3e15, 0.0});
  for (const auto& [got, exact] : {std::pair<Tensor, Formula>{x.cos(), [](double v) { return std::cos(v); }},
                                   {gradients(x.sin(), {x})[0], [](double v) { return std::cos(v); }},
                                   {gradients(x.cos(), {x})[0], [](double v) { return -std::sin(v); }}}) {
    const auto values = got.to_vector<double>(), at = x.to_vector<double>();
    for (size_t k = 0; k < at.size(); ++k) CHECK(values[k] == doctest::Approx(exact(at[k])).epsilon(1e-14));
  }
}

TEST_CASE("a row that attends to nothing gives zeros and zero derivatives") {
  const Tensor q = Tensor::randn({3, 4}, 1), k = Tensor::randn({5, 4}, 2), v = Tensor::randn({5, 2}, 3);
  const Tensor allowed =
      Tensor::from(std::vector<uint8_t>{1, 0, 1, 1, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1}, {3, 5}) != 0;
  const Tensor bias = where(allowed, Tensor::scalar(0.f), Tensor::scalar(-INFINITY));
  for (const Tensor& mask : {allowed, bias}) {
    const Tensor y = scaled_dot_product_attention(q, k, v, mask);
    const std::vector<Tensor> parts = gradients(y.square().sum(), {q, k, v});
    const auto rows = y.to_vector<float>();
    CHECK(rows[2] == 0);
    CHECK(rows[3] == 0);
    CHECK(rows[0] != 0);
    for (const Tensor& d : parts)
      for (const float value : d.to_vector<float>()) CHECK(std::isfinite(value));
    const auto dq = parts[0].to_vector<float>();
    for (int i = 4; i < 8; ++i) CHECK(dq[i] == 0);
    CHECK(dq[0] != 0);
  }
}

TEST_CASE("the spread of equal values has derivative 0") {
  const Tensor x = Tensor::from({2.f, 2.f, 2.f});
  CHECK(gradients(x.std(), {x})[0].to_vector<float>() == std::vector<float>{0, 0, 0});
  const Tensor apart = Tensor::from({1.f, 3.f});
  CHECK(gradients(apart.std(), {apart})[0].to_vector<float>() == std::vector<float>{-0.5f, 0.5f});
}
