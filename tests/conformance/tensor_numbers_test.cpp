// Functions of numbers, one by one, against the C++ library; and random numbers.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>

#include "support/tensor_values.hpp"

using namespace lathe;
using namespace lathe::test;

namespace {

// Relative error, but for tiny values and infinities.
void check_unary(const char* name, const std::function<Tensor(const Tensor&)>& f,
                 const std::function<double(double)>& want, const std::vector<double>& points,
                 double f32_tolerance, double f64_tolerance) {
  INFO(std::string(name));
  const auto check = [&](const std::vector<double>& got, const auto& in, double tolerance) {
    for (size_t i = 0; i < in.size(); ++i) {
      const double w = want(static_cast<double>(in[i]));
      const bool ok = std::isnan(w)   ? std::isnan(got[i])
                      : std::isinf(w) ? got[i] == w
                                      : std::fabs(got[i] - w) <= tolerance * std::fabs(w) + 1e-38;
      CHECK_MESSAGE(ok, "of ", in[i], ": ", got[i], " for ", w);
    }
  };
  const std::vector<float> narrow(points.begin(), points.end());
  check(as_doubles(f(Tensor::from(narrow))), narrow, f32_tolerance);
  check(as_doubles(f(Tensor::from(points))), points, f64_tolerance);
}

std::vector<double> grid(double low, double high, int count) {
  std::vector<double> out;
  for (int i = 0; i < count; ++i) out.push_back(low + (high - low) * (i + 0.37) / count);
  return out;
}

std::vector<double> with(std::vector<double> points, std::initializer_list<double> more) {
  points.insert(points.end(), more);
  return points;
}

} // namespace

TEST_CASE("functions of one number") {
  const auto wide = with(grid(-20, 20, 301), {0, 1, -1, 0.5, -0.5, 1e-6, -1e-6, kInf, -kInf, kNan});
  const auto positive = with(grid(1e-3, 50, 301), {0, 1, 1e-30, 1e30, kInf, kNan, -1});
  const double e32 = 4e-7, e64 = 1e-15;
  check_unary(
      "exp", [](auto& x) { return x.exp(); }, [](double x) { return std::exp(x); }, wide, 3e-6, 6e-15);
  check_unary(
      "log", [](auto& x) { return x.log(); }, [](double x) { return std::log(x); }, positive, 4e-6, 1e-14);
  check_unary(
      "log10", [](auto& x) { return x.log10(); }, [](double x) { return std::log10(x); }, positive, 4e-6,
      1e-14);
  check_unary(
      "sqrt", [](auto& x) { return x.sqrt(); }, [](double x) { return std::sqrt(x); }, positive, e32, e64);
  check_unary(
      "rsqrt", [](auto& x) { return x.rsqrt(); }, [](double x) { return 1 / std::sqrt(x); }, positive, e32,
      e64);
  check_unary(
      "expm1", [](auto& x) { return x.expm1(); }, [](double x) { return std::expm1(x); }, wide, 3e-6, 6e-15);
  check_unary(
      "log1p", [](auto& x) { return x.log1p(); }, [](double x) { return std::log1p(x); },
      with(positive, {-0.5, 1e-6, -1e-6}), 2e-6, 1e-14);
  check_unary(
      "sinh", [](auto& x) { return x.sinh(); }, [](double x) { return std::sinh(x); }, wide, 3e-6, 6e-15);
  check_unary(
      "cosh", [](auto& x) { return x.cosh(); }, [](double x) { return std::cosh(x); }, wide, 3e-6, 6e-15);
  check_unary(
      "tanh", [](auto& x) { return x.tanh(); }, [](double x) { return std::tanh(x); }, wide, 2e-6, 2e-15);
  check_unary(
      "sigmoid", [](auto& x) { return x.sigmoid(); }, [](double x) { return 1 / (1 + std::exp(-x)); }, wide,
      3e-6, 6e-15);
  check_unary(
      "softplus", [](auto& x) { return x.softplus(); },
      [](double x) { return std::isnan(x) ? x : std::max(x, 0.0) + std::log1p(std::exp(-std::fabs(x))); },
      wide, 3e-6, 6e-15);
  const auto unit = with(grid(-1, 1, 301), {0, -1, 1, 0.5, -0.5, 1 - 1e-16, 1e-6, -1e-30, 1.5, -kInf, kNan});
  check_unary(
      "asin", [](auto& x) { return x.asin(); }, [](double x) { return std::asin(x); }, unit, e32, e64);
  check_unary(
      "acos", [](auto& x) { return x.acos(); }, [](double x) { return std::acos(x); }, unit, e32, e64);
  check_unary(
      "atan", [](auto& x) { return x.atan(); }, [](double x) { return std::atan(x); },
      with(wide, {1e-30, -1e30}), e32, e64);
  check_unary(
      "asinh", [](auto& x) { return x.asinh(); }, [](double x) { return std::asinh(x); },
      with(wide, {1e-30, -1e30, 0.57, 3e38}), e32, e64);
  check_unary(
      "acosh", [](auto& x) { return x.acosh(); }, [](double x) { return std::acosh(x); },
      with(grid(1, 50, 301), {1, 1 + 1e-7, 1.15, 1e30, 3e38, kInf, 0.99, -2, -kInf, kNan}), e32, e64);
  check_unary(
      "atanh", [](auto& x) { return x.atanh(); }, [](double x) { return std::atanh(x); }, unit, e32, e64);
  check_unary("floor", [](auto& x) { return x.floor(); }, [](double x) { return std::floor(x); }, wide, 0, 0);
  check_unary("ceil", [](auto& x) { return x.ceil(); }, [](double x) { return std::ceil(x); }, wide, 0, 0);
  check_unary(
      "round", [](auto& x) { return x.round(); }, [](double x) { return std::nearbyint(x); },
      with(wide, {1.5, 2.5, -2.5, -3.5, 1e9, 0.49999997}), 0, 0);
  check_unary("abs", [](auto& x) { return x.abs(); }, [](double x) { return std::fabs(x); }, wide, 0, 0);
  check_unary(
      "sign", [](auto& x) { return x.sign(); }, [](double x) { return x > 0   ? 1.0
                                                                      : x < 0 ? -1.0
                                                                              : x; }, wide,
      0, 0);
  check_unary(
      "relu", [](auto& x) { return x.relu(); }, [](double x) { return std::isnan(x) || x > 0 ? x : 0; }, wide,
      0, 0);
  check_unary(
      "elu", [](auto& x) { return x.elu(1.5); }, [](double x) { return x < 0 ? 1.5 * std::expm1(x) : x; },
      wide, 3e-6, 6e-15);
  check_unary(
      "leaky_relu", [](auto& x) { return x.leaky_relu(); }, [](double x) { return x < 0 ? 0.01 * x : x; },
      wide, e32, e64);
  check_unary("square", [](auto& x) { return x.square(); }, [](double x) { return x * x; }, wide, e32, e64);
  check_unary(
      "hardswish", [](auto& x) { return x.hardswish(); },
      [](double x) { return x * std::clamp(x + 3, 0.0, 6.0) / 6; }, grid(-20, 20, 99), 1e-6, 1e-14);
}

TEST_CASE("functions whose error is absolute") {
  const std::vector<double> points = grid(-6, 6, 401);
  const std::vector<float> narrow(points.begin(), points.end());
  const auto check = [&](const char* name, const Tensor& f32, const Tensor& f64, auto want, double f32_error,
                         double f64_error) {
    INFO(std::string(name));
    const auto a = as_doubles(f32), b = as_doubles(f64);
    for (size_t i = 0; i < points.size(); ++i) {
      CHECK(std::fabs(a[i] - want(static_cast<double>(narrow[i]))) <= f32_error);
      CHECK(std::fabs(b[i] - want(points[i])) <= f64_error);
    }
  };
  const Tensor x = Tensor::from(narrow), y = Tensor::from(points);
  check("erf", x.erf(), y.erf(), [](double v) { return std::erf(v); }, 1e-7, 1e-15);
  check("cos", x.cos(), y.cos(), [](double v) { return std::cos(v); }, 6e-7, 2e-15);
  check("sin", x.sin(), y.sin(), [](double v) { return std::sin(v); }, 2e-7, 2e-15);
  const auto gelu = [](double v) { return 0.5 * v * (1 + std::erf(v * std::sqrt(0.5))); };
  check("gelu", x.gelu(), y.gelu(), gelu, 7e-7, 1e-14);
  const auto gelu_tanh = [](double v) {
    return 0.5 * v * (1 + std::tanh(std::sqrt(2 / M_PI) * (v + 0.044715 * v * v * v)));
  };
  check("gelu tanh", x.gelu(true), y.gelu(true), gelu_tanh, 2e-6, 1e-14);
  check("silu", x.silu(), y.silu(), [](double v) { return v / (1 + std::exp(-v)); }, 2e-6, 1e-14);
  check("tan", x.tan() * x.cos(), y.tan() * y.cos(), [](double v) { return std::sin(v); }, 1e-6, 1e-14);
}

namespace {

// A unit in the last place of `want` as a T, or the smallest subnormal where that is larger.
template <class T> long double unit_of(long double want) {
  using Limits = std::numeric_limits<T>;
  const int least = Limits::min_exponent - 1;
  return std::ldexp(1.0L, std::max(want == 0 ? least : std::ilogb(want), least) - Limits::digits + 1);
}

// Whether `got` is `want` within a number of units, its sign included.
template <class T> bool is_within(T got, long double want, double units) {
  if (std::isnan(got) || std::isnan(want)) return std::isnan(got) && std::isnan(want);
  if (std::signbit(got) != std::signbit(want)) return false;
  if (std::isinf(static_cast<T>(want)) || std::isinf(got)) return got == static_cast<T>(want);
  return std::fabs(got - want) <= units * unit_of<T>(want);
}

template <class T> void check_pairs(const std::vector<T>& a, const std::vector<T>& b) {
  const Tensor x = Tensor::from(a), y = Tensor::from(b);
  const auto angle = atan2(x, y).template to_vector<T>(), length = hypot(x, y).template to_vector<T>();
  for (size_t i = 0; i < a.size(); ++i) {
    const long double p = a[i], q = b[i];
    CHECK_MESSAGE(is_within(angle[i], std::atan2(p, q), 2), "atan2(", a[i], ", ", b[i], ") is ", angle[i]);
    CHECK_MESSAGE(is_within(length[i], std::hypot(p, q), 1.5), "hypot(", a[i], ", ", b[i], ") is ",
                  length[i]);
  }
}

// All pairs of special numbers.
template <class T> void check_special_pairs() {
  using Limits = std::numeric_limits<T>;
  std::vector<T> a, b, all{T(kNan)};
  for (const T size : {T(0), T(1), T(3), Limits::infinity(), Limits::max(), Limits::max() / 2, Limits::min(),
                       Limits::denorm_min(), std::sqrt(Limits::max()), std::sqrt(Limits::min())})
    for (const T sign : {T(1), T(-1)}) all.push_back(sign * size);
  for (const T p : all)
    for (const T q : all) a.push_back(p), b.push_back(q);
  check_pairs(a, b);
}

// Of every exponent; in half of the pairs the second number is of the first one's size.
template <class T> void check_random_pairs() {
  using Limits = std::numeric_limits<T>;
  std::vector<T> a = noise<T>(4000, 21), b = noise<T>(4000, 22);
  const int exponents = Limits::max_exponent - Limits::min_exponent + Limits::digits;
  for (size_t i = 0; i < a.size(); ++i) {
    const int k =
        static_cast<int>(i * 37 % static_cast<size_t>(exponents)) + Limits::min_exponent - Limits::digits;
    a[i] = std::ldexp(a[i], k);
    b[i] = std::ldexp(b[i], i % 2 ? k : static_cast<int>(i % 80) - 40);
  }
  check_pairs(a, b);
}

} // namespace

TEST_CASE("atan2 and hypot of special and of random numbers") {
  check_special_pairs<float>();
  check_special_pairs<double>();
  check_random_pairs<float>();
  check_random_pairs<double>();
}

TEST_CASE("atan2 and hypot take dtypes and shapes as division does, and round half precision once") {
  const Tensor x = Tensor::from({3, -5}), y = Tensor::from({4, 12});
  CHECK(hypot(x, y).to_vector<double>() == std::vector<double>{5, 13});
  CHECK(hypot(x.cast(DType::I8), 4).dtype() == DType::F32);
  CHECK(atan2(x != 0, y != 0).dtype() == (x.cast(DType::Bool) / y.cast(DType::Bool)).dtype());
  CHECK(atan2(Tensor::from(std::vector<float>{1, -1}, {2, 1}), Tensor::from({1.f, -1.f})).shape() ==
        Shape{2, 2});
  CHECK(atan2(0.0, Tensor::from({-1.f})).item<float>() == static_cast<float>(M_PI));
  const Tensor a = Tensor::from({3e4f, 6e4f}).cast(DType::F16),
               b = Tensor::from({4e4f, 6e4f}).cast(DType::F16);
  CHECK(as_doubles(hypot(a, b)) == std::vector<double>{49984, kInf}); // of 30000 and 40000, which f16 holds
}

TEST_CASE("odd functions keep the sign of zero") {
  for (const DType d : {DType::F16, DType::F32, DType::F64}) {
    const Tensor zeros = Tensor::from({0.f, -0.f}).cast(d);
    for (const Tensor& y : {zeros.asin(), zeros.atan(), zeros.asinh(), zeros.atanh()}) {
      const auto got = as_doubles(y);
      CHECK((got[0] == 0 && !std::signbit(got[0])));
      CHECK((got[1] == 0 && std::signbit(got[1])));
    }
  }
}

TEST_CASE("half precision is computed in f32 and rounded once") {
  const std::vector<float> in = noise(101, 3);
  const Tensor x = Tensor::from(in).cast(DType::F16);
  const auto got = as_doubles(x.exp()), source = as_doubles(x);
  for (size_t i = 0; i < in.size(); ++i)
    CHECK(got[i] == doctest::Approx(std::exp(source[i])).epsilon(0.0006));
  // 4096 ones: summed in f16 alone they would stop at 2048.
  CHECK(Tensor::ones({4096}, DType::F16).contiguous().sum().item<float>() == 4096);
  CHECK(Tensor::ones({512}, DType::BF16).contiguous().sum().item<float>() == 512);
  CHECK(Tensor::ones({1, 4096}, DType::F16)
            .contiguous()
            .matmul(Tensor::ones({4096, 1}, DType::F16))
            .item<float>() == 4096);
}

TEST_CASE("comparisons and logic with NaN") {
  const std::vector<float> a{1, 2, kNan, kNan, -0.0f, kInf}, b{2, 2, 1, kNan, 0.0f, kInf};
  const Tensor x = Tensor::from(a), y = Tensor::from(b);
  const auto check = [&](const Tensor& got, auto want) {
    const auto g = got.to_vector<uint8_t>();
    for (size_t i = 0; i < a.size(); ++i) CHECK(g[i] == (want(a[i], b[i]) ? 1 : 0));
  };
  check(x < y, [](float p, float q) { return p < q; });
  check(x <= y, [](float p, float q) { return p <= q; });
  check(x > y, [](float p, float q) { return p > q; });
  check(x >= y, [](float p, float q) { return p >= q; });
  check(x == y, [](float p, float q) { return p == q; });
  check(x != y, [](float p, float q) { return p != q; });
  check(x.isnan(), [](float p, float) { return std::isnan(p); });
  check(x.isinf(), [](float p, float) { return std::isinf(p); });
  check(x.isfinite(), [](float p, float) { return std::isfinite(p); });
  check(logical_and(x, y), [](float p, float q) { return p && q; });
  check(logical_or(x, y), [](float p, float q) { return p || q; });
  check(x.logical_not(), [](float p, float) { return !p; });
  check_close(maximum(x, y).to_vector<float>(), std::vector<float>{2, 2, kNan, kNan, 0, kInf});
  check_close(minimum(x, y).to_vector<float>(), std::vector<float>{1, 2, kNan, kNan, 0, kInf});
  check_close(where(x < y, x, y).to_vector<float>(), std::vector<float>{1, 2, 1, kNan, 0, kInf});
}

TEST_CASE("integers: division, remainder, powers and shifts") {
  std::vector<int32_t> a, b;
  for (int32_t p : {-7, -6, -1, 0, 1, 6, 7, INT32_MAX, INT32_MIN})
    for (int32_t q : {-3, -2, -1, 1, 2, 3, 5}) a.push_back(p), b.push_back(q);
  const Tensor x = Tensor::from(a), y = Tensor::from(b);
  const auto quotient = floor_divide(x, y).to_vector<int32_t>(), remainder = (x % y).to_vector<int32_t>();
  const auto least = minimum(x, y).to_vector<int32_t>(), absolute = x.abs().to_vector<int32_t>(),
             power = pow(x, y).to_vector<int32_t>();
  for (size_t i = 0; i < a.size(); ++i) {
    const int64_t p = a[i], q = b[i];
    const int64_t floor = p / q - (p % q != 0 && (p % q < 0) != (q < 0));
    CHECK(quotient[i] == static_cast<int32_t>(floor));
    CHECK(remainder[i] == p - floor * q);
    CHECK(least[i] == std::min(p, q));
    CHECK(absolute[i] == static_cast<int32_t>(std::abs(p)));
    uint32_t want = 1;
    for (int64_t k = 0; k < q; ++k) want *= static_cast<uint32_t>(p);
    if (q < 0) want = p == 1 ? 1 : p == -1 ? (q % 2 ? -1 : 1) : 0;
    CHECK(power[i] == static_cast<int32_t>(want));
  }
  CHECK(pow(x, Tensor::scalar(3)).to_vector<int32_t>()[0] == -343);
  CHECK((Tensor::from({1u, 5u}) << Tensor::from({3u, 40u})).to_vector<uint32_t>() ==
        std::vector<uint32_t>{8, 0});
  CHECK((Tensor::from({-8, 7}) >> Tensor::from({1, 1})).to_vector<int32_t>() == std::vector<int32_t>{-4, 3});
  CHECK((Tensor::from({7, -7}) / Tensor::from({2, 2})).to_vector<double>() == std::vector<double>{3.5, -3.5});
  CHECK(Tensor::from({6, 5}).bitwise_not().to_vector<int32_t>() == std::vector<int32_t>{-7, -6});
}

TEST_CASE("floats: powers, remainder, clamp") {
  const std::vector<double> a{2, -2, 0, 3, -8, 1, -1.5, 9, kInf}, b{3, 3, 2, -1, 5, kNan, 2, 0.5, -1};
  const Tensor x = Tensor::from(a), y = Tensor::from(b);
  std::vector<double> power;
  for (size_t i = 0; i < a.size(); ++i) power.push_back(std::pow(a[i], b[i]));
  check_close(pow(x, y).to_vector<double>(), power, 1e-13);
  check_close(pow(x, Tensor::scalar(2.0)).to_vector<double>(), (x * x).to_vector<double>(), 0);
  CHECK(std::isnan(pow(Tensor::scalar(-8.0), Tensor::scalar(1.0 / 3)).item<double>()));
  std::vector<float> p, q, want, floor;
  for (float u : {-7.5f, -6.f, -0.5f, 0.f, 3.f, 6.f, 7.25f, 12.f})
    for (float v : {-3.f, -0.7f, 0.3f, 2.f, 3.f}) {
      p.push_back(u), q.push_back(v);
      float r = std::fmod(u, v);
      if (r != 0 && (r < 0) != (v < 0)) r += v;
      want.push_back(r);
      floor.push_back(std::round((u - r) / v));
    }
  // A remainder next to the divisor stands for one next to 0.
  const auto got = (Tensor::from(p) % Tensor::from(q)).to_vector<float>();
  for (size_t i = 0; i < p.size(); ++i) {
    const float distance = std::fabs(got[i] - want[i]);
    CHECK_MESSAGE(std::min(distance, std::fabs(distance - std::fabs(q[i]))) < 4e-6f, p[i], " % ", q[i], " = ",
                  got[i], " for ", want[i]);
    CHECK(std::fabs(got[i]) < std::fabs(q[i]));
  }
  CHECK((Tensor::from({6.f, 9.f, -6.f}) % Tensor::from({3.f, 3.f, 3.f})).to_vector<float>() ==
        std::vector<float>{0, 0, 0});
  CHECK(floor_divide(Tensor::from({6.f, 7.f, -7.f}), Tensor::from({3.f, 3.f, 3.f})).to_vector<float>() ==
        std::vector<float>{2, 2, -3});
  CHECK(Tensor::from({-3.f, 0.5f, 9.f}).clamp(-1, 2).to_vector<float>() == std::vector<float>{-1, 0.5f, 2});
  CHECK(Tensor::from({-3, 0, 9}).clamp(-1.5, 2.5).to_vector<int32_t>() == std::vector<int32_t>{-1, 0, 2});
  CHECK(Tensor::from({-3, 0, 9}).clamp({}, 1e30).to_vector<int32_t>() == std::vector<int32_t>{-3, 0, 9});
}

TEST_CASE("random numbers have the right distribution") {
  constexpr int64_t n = 20'000;
  const auto u = Tensor::rand({n}, 3).to_vector<float>();
  CHECK(*std::min_element(u.begin(), u.end()) >= 0);
  CHECK(*std::max_element(u.begin(), u.end()) < 1);
  std::array<int, 10> counts{};
  for (float x : u) ++counts[static_cast<size_t>(x * 10)];
  for (int c : counts) CHECK(std::abs(c - n / 10) < 200); // 4.7 standard deviations
  const auto z = Tensor::randn({n}, 3, DType::F64).to_vector<double>();
  double mean = 0, variance = 0, neighbours = 0;
  for (double x : z) mean += x / n, variance += x * x / n;
  for (size_t i = 1; i < z.size(); ++i) neighbours += z[i] * z[i - 1] / n;
  CHECK(std::fabs(mean) < 0.03);
  CHECK(std::fabs(variance - 1) < 0.05);
  CHECK(std::fabs(neighbours) < 0.03);
  std::array<int, 7> dice{};
  for (int64_t v : Tensor::randint(-3, 4, {7000}, 5).to_vector<int64_t>())
    ++dice.at(static_cast<size_t>(v + 3));
  for (int c : dice) CHECK(std::abs(c - 1000) < 150);
  for (DType d : {DType::F16, DType::BF16}) {
    const auto h = as_doubles(Tensor::rand({n}, 9, d));
    CHECK(*std::max_element(h.begin(), h.end()) < 1);
  }
}
