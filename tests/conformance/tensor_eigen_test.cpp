// The composed functions against Eigen, the C++ library and plain loops, at sizes that are 1, prime or odd.
// Values are computed by the tests' own evaluator, so that only what the Tensor builds is on trial.
#include <doctest/doctest.h>

#include <Eigen/Dense>
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <limits>
#include <numeric>

#include "lathe/lathe.hpp"
#ifndef LATHE_TEST_WHOLE_LIBRARY
#include "support/graph_eval.hpp"
#endif

using namespace lathe;

namespace {

#ifdef LATHE_TEST_WHOLE_LIBRARY
const bool registered = (set_default_device(std::getenv("LATHE_TEST_DEVICE")), true);
#else
const bool registered = (graph::set_realiser(&test::realise_by_evaluation), true);
#endif
constexpr float kInf = std::numeric_limits<float>::infinity();
const float kNan = std::nanf("");

// Repeatable numbers in [-2, 2).
template <class T = float> std::vector<T> noise(size_t count, uint32_t seed) {
  std::vector<T> out(count);
  uint64_t state = seed * 2654435761u + 12345;
  for (T& v : out) {
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    const double unit = static_cast<double>(state >> 40) / (1 << 24);
    v = std::is_floating_point_v<T>
            ? static_cast<T>(unit * 4 - 2)
            : static_cast<T>(static_cast<int64_t>(unit * 200) - (std::is_signed_v<T> ? 100 : 0));
  }
  return out;
}

template <class T = float> Tensor random(const Shape& shape, uint32_t seed) {
  return Tensor::from(noise<T>(static_cast<size_t>(num_elements(shape).value()), seed), shape);
}

bool same(double a, double b, double tolerance) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
  if (a == b) return true;
  return std::fabs(a - b) <= tolerance * std::max(1.0, std::fabs(b));
}

template <class T, class U>
void check_close(const std::vector<T>& got, const std::vector<U>& want, double tolerance = 1e-6) {
  REQUIRE(got.size() == want.size());
  for (size_t i = 0; i < got.size(); ++i)
    CHECK_MESSAGE(same(static_cast<double>(got[i]), static_cast<double>(want[i]), tolerance), i, ": ", got[i],
                  " for ", want[i]);
}

std::vector<double> as_doubles(const Tensor& t) { return t.cast(DType::F64).to_vector<double>(); }

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

using Matrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
Matrix matrix(const Tensor& t) {
  const auto sizes = static_sizes(t.shape());
  const auto values = as_doubles(t);
  return Eigen::Map<const Matrix>(values.data(), sizes[0], sizes[1]);
}
std::vector<double> values(const Matrix& m) { return {m.data(), m.data() + m.size()}; }

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
  check_unary(
      "floor", [](auto& x) { return x.floor(); }, [](double x) { return std::floor(x); }, wide, 0, 0);
  check_unary(
      "ceil", [](auto& x) { return x.ceil(); }, [](double x) { return std::ceil(x); }, wide, 0, 0);
  check_unary(
      "round", [](auto& x) { return x.round(); }, [](double x) { return std::nearbyint(x); },
      with(wide, {1.5, 2.5, -2.5, -3.5, 1e9, 0.49999997}), 0, 0);
  check_unary(
      "abs", [](auto& x) { return x.abs(); }, [](double x) { return std::fabs(x); }, wide, 0, 0);
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
  check_unary(
      "square", [](auto& x) { return x.square(); }, [](double x) { return x * x; }, wide, e32, e64);
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
  check(
      "erf", x.erf(), y.erf(), [](double v) { return std::erf(v); }, 1e-7, 1e-15);
  check(
      "cos", x.cos(), y.cos(), [](double v) { return std::cos(v); }, 6e-7, 2e-15);
  check(
      "sin", x.sin(), y.sin(), [](double v) { return std::sin(v); }, 2e-7, 2e-15);
  const auto gelu = [](double v) { return 0.5 * v * (1 + std::erf(v * std::sqrt(0.5))); };
  check("gelu", x.gelu(), y.gelu(), gelu, 7e-7, 1e-14);
  const auto gelu_tanh = [](double v) {
    return 0.5 * v * (1 + std::tanh(std::sqrt(2 / M_PI) * (v + 0.044715 * v * v * v)));
  };
  check("gelu tanh", x.gelu(true), y.gelu(true), gelu_tanh, 2e-6, 1e-14);
  check(
      "silu", x.silu(), y.silu(), [](double v) { return v / (1 + std::exp(-v)); }, 2e-6, 1e-14);
  check(
      "tan", x.tan() * x.cos(), y.tan() * y.cos(), [](double v) { return std::sin(v); }, 1e-6, 1e-14);
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
  for (int64_t n : {1, 2, 3, 8, 13, 31}) {
    const auto in = noise<int32_t>(static_cast<size_t>(2 * n), 4);
    const auto got = Tensor::from(in, {2, n}).cumsum(1).to_vector<int64_t>();
    for (int64_t r = 0; r < 2; ++r) {
      int64_t sum = 0;
      for (int64_t k = 0; k < n; ++k) CHECK(got[r * n + k] == (sum += in[r * n + k]));
    }
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

TEST_CASE("indexing") {
  const Tensor x = Tensor::arange(30).reshape({5, 6});
  const auto v = [](const Tensor& t) { return t.to_vector<int64_t>(); };
  CHECK(v(x.index({1, 2})) == std::vector<int64_t>{8});
  CHECK(v(x.index({-1, Slice{{}, {}, 2}})) == std::vector<int64_t>{24, 26, 28});
  CHECK(v(x.index({Slice{{}, {}, -2}, 0})) == std::vector<int64_t>{24, 12, 0});
  CHECK(v(x.index({Slice{3, 0, -2}, 1})) == std::vector<int64_t>{19, 7});
  CHECK(v(x.index({Slice{-2, {}}, Slice{-2, 100}})) == std::vector<int64_t>{22, 23, 28, 29});
  CHECK(v(x.index({Slice{-100, 1}, Slice{4, {}, -3}})) == std::vector<int64_t>{4, 1});
  CHECK(v(x.index({Ellipsis{}, Slice{1, 6, 4}}).flip({0}).index({0})) == std::vector<int64_t>{25, 29});
  CHECK(v(x.roll(2, 0).index({Ellipsis{}, 0})) == std::vector<int64_t>{18, 24, 0, 6, 12});
  CHECK(v(x.roll(-1, 1).index({0})) == std::vector<int64_t>{1, 2, 3, 4, 5, 0});
  CHECK(v(Tensor::arange(3).repeat({2, 2})) == std::vector<int64_t>{0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1, 2});
  CHECK(v(Tensor::arange(6).window(0, 3, 2)) == std::vector<int64_t>{0, 1, 2, 2, 3, 4});
  CHECK(v(Tensor::arange(6).window(0, 2, 1, 3)) == std::vector<int64_t>{0, 3, 1, 4, 2, 5});
  CHECK(v(Tensor::arange(10, 0, -3)) == std::vector<int64_t>{10, 7, 4, 1});
  CHECK(v(Tensor::tri(3, 4, 1, DType::I64)) == std::vector<int64_t>{1, 1, 0, 0, 1, 1, 1, 0, 1, 1, 1, 1});
  CHECK(v(Tensor::eye(2, 3, DType::I64)) == std::vector<int64_t>{1, 0, 0, 0, 1, 0});
  check_close(Tensor::linspace(0, 1, 5).to_vector<float>(), std::vector<float>{0, 0.25f, 0.5f, 0.75f, 1});
}

TEST_CASE("padding, joining and splitting keep every bit") {
  const Tensor x = Tensor::from(std::vector<float>{kNan, -0.0f, kInf, 2}, {2, 2}),
               y = Tensor::from(std::vector<float>{-0.0f, 5}, {1, 2});
  const auto joined = concat({x, y, x}).to_vector<float>();
  check_close(joined, std::vector<float>{kNan, 0, kInf, 2, 0, 5, kNan, 0, kInf, 2}, 0);
  CHECK(std::signbit(joined[1]));
  CHECK(std::signbit(joined[4]));
  check_close(x.pad({{0, 1}, {1, 0}}, -1).to_vector<float>(),
              std::vector<float>{-1, kNan, 0, -1, kInf, 2, -1, -1, -1}, 0);
  check_close(stack({y, y}, 2).to_vector<float>(), std::vector<float>{0, 0, 5, 5}, 0);
  const Tensor z = random({7, 3}, 12);
  for (int axis : {0, 1})
    check_close(concat(z.split(2, axis), axis).to_vector<float>(), z.to_vector<float>(), 0);
  const auto parts = z.split({1, 4, 2});
  CHECK(parts[1].to_vector<float>() == z.shrink({{1, 5}, {0, 3}}).to_vector<float>());
  CHECK(concat({Tensor::from({1, 2}), Tensor::from({0.5})}).to_vector<double>() ==
        std::vector<double>{1, 2, 0.5});
}

TEST_CASE("gather, take and scatter") {
  const auto in = noise<int32_t>(12, 3);
  const Tensor x = Tensor::from(in, {3, 4});
  const std::vector<int64_t> at{0, 2, -1, 1, 5, 0, -3, 2};
  const Tensor i = Tensor::from(at, {2, 4});
  const auto got = x.gather(0, i).to_vector<int32_t>();
  for (int64_t r = 0; r < 2; ++r)
    for (int64_t c = 0; c < 4; ++c) {
      const int64_t k = at[r * 4 + c] < 0 ? at[r * 4 + c] + 3 : at[r * 4 + c];
      CHECK(got[r * 4 + c] == (k < 3 ? in[k * 4 + c] : 0));
    }
  const auto rows = x.take(Tensor::from({2, 0, -1}), 0).to_vector<int32_t>();
  for (int64_t c = 0; c < 4; ++c) {
    CHECK(rows[c] == in[8 + c]);
    CHECK(rows[4 + c] == in[c]);
    CHECK(rows[8 + c] == in[8 + c]);
  }
  CHECK(x.take(Tensor::from(std::vector<int>{1, 1}, {2, 1}), 1).shape() == Shape{3, 2, 1});
  CHECK(x.take(Tensor::from({3, 1}), 1).to_vector<int32_t>() ==
        std::vector<int32_t>{in[3], in[1], in[7], in[5], in[11], in[9]});
  const Tensor source = Tensor::ones({2, 4}, DType::I32);
  std::vector<int32_t> sums(12), last(12);
  for (int64_t r = 0; r < 2; ++r)
    for (int64_t c = 0; c < 4; ++c) {
      const int64_t k = at[r * 4 + c] < 0 ? at[r * 4 + c] + 3 : at[r * 4 + c];
      if (k < 3) sums[k * 4 + c] += 1, last[k * 4 + c] = 1;
    }
  CHECK(Tensor::zeros({3, 4}, DType::I32).scatter_add(0, i, source).to_vector<int32_t>() == sums);
  CHECK(Tensor::zeros({3, 4}, DType::I32).scatter(0, i, source).to_vector<int32_t>() == last);
}

namespace {

// Direct convolution of [N, C, H, W] with [O, C/g, KH, KW].
std::vector<double> direct_conv(const Tensor& x, const Tensor& w, int64_t sh, int64_t sw, int64_t ph,
                                int64_t pw, int64_t dh, int64_t dw, int64_t groups) {
  const auto xs = static_sizes(x.shape()), ws = static_sizes(w.shape());
  const auto in = as_doubles(x), k = as_doubles(w);
  const int64_t oh = (xs[2] + 2 * ph - dh * (ws[2] - 1) - 1) / sh + 1,
                ow = (xs[3] + 2 * pw - dw * (ws[3] - 1) - 1) / sw + 1;
  std::vector<double> out;
  for (int64_t n = 0; n < xs[0]; ++n)
    for (int64_t o = 0; o < ws[0]; ++o)
      for (int64_t y = 0; y < oh; ++y)
        for (int64_t z = 0; z < ow; ++z) {
          double sum = 0;
          for (int64_t c = 0; c < ws[1]; ++c)
            for (int64_t i = 0; i < ws[2]; ++i)
              for (int64_t j = 0; j < ws[3]; ++j) {
                const int64_t row = y * sh + i * dh - ph, column = z * sw + j * dw - pw,
                              channel = o / (ws[0] / groups) * ws[1] + c;
                if (row < 0 || row >= xs[2] || column < 0 || column >= xs[3]) continue;
                sum += in[((n * xs[1] + channel) * xs[2] + row) * xs[3] + column] *
                       k[((o * ws[1] + c) * ws[2] + i) * ws[3] + j];
              }
          out.push_back(sum);
        }
  return out;
}

} // namespace

TEST_CASE("convolution against direct loops") {
  struct Case {
    Shape x, w;
    int64_t sh, sw, ph, pw, dh, dw, groups;
  };
  for (const Case& c : std::vector<Case>{{{1, 1, 1, 1}, {1, 1, 1, 1}, 1, 1, 0, 0, 1, 1, 1},
                                         {{2, 3, 7, 5}, {4, 3, 3, 3}, 1, 1, 1, 1, 1, 1, 1},
                                         {{1, 4, 7, 9}, {6, 2, 3, 2}, 2, 3, 2, 1, 2, 1, 2},
                                         {{2, 4, 5, 5}, {4, 1, 3, 3}, 1, 2, 1, 0, 1, 1, 4},
                                         {{1, 2, 11, 3}, {3, 2, 5, 1}, 3, 1, 0, 2, 2, 1, 1}}) {
    const Tensor x = random(c.x, 21), w = random(c.w, 22), bias = random({c.w[0]}, 23);
    const Tensor y = x.conv2d(
        w, {},
        {.stride = {c.sh, c.sw}, .padding = {c.ph, c.pw}, .dilation = {c.dh, c.dw}, .groups = c.groups});
    check_close(as_doubles(y), direct_conv(x, w, c.sh, c.sw, c.ph, c.pw, c.dh, c.dw, c.groups), 4e-6);
    const Tensor biased = x.conv2d(
        w, bias,
        {.stride = {c.sh, c.sw}, .padding = {c.ph, c.pw}, .dilation = {c.dh, c.dw}, .groups = c.groups});
    check_close(as_doubles(biased), as_doubles(y + bias.reshape({c.w[0], 1, 1})), 2e-6);
  }
  const Tensor x = random({2, 3, 9}, 24), w = random({4, 3, 3}, 25);
  check_close(as_doubles(x.conv1d(w, {}, {.stride = {2}, .padding = {1}})),
              direct_conv(x.unsqueeze(2), w.unsqueeze(2), 1, 2, 0, 1, 1, 1, 1), 4e-6);
  const Tensor volume = random({1, 2, 1, 5, 4}, 26), kernel = random({3, 2, 1, 2, 3}, 27);
  check_close(as_doubles(volume.conv3d(kernel)),
              direct_conv(volume.squeeze(2), kernel.squeeze(2), 1, 1, 0, 0, 1, 1, 1), 4e-6);
}

TEST_CASE("transposed convolution is the transpose of convolution") {
  // <conv(x), y> = <x, conv_transpose(y)> for every x and y.
  struct Case {
    int64_t h, k, stride, padding, dilation, groups;
  };
  for (const Case& c :
       std::vector<Case>{{5, 3, 1, 0, 1, 1},
                         {7, 3, 2, 1, 1, 1},
                         {7, 2, 3, 0, 2, 2},
                         {6, 4, 2, 3, 1, 1},
                         {9, 7, 1, 1, 1, 1},
                         {9, 4, 3, 2, 2, 2}, // here the kernels have more elements than the images
                         {15, 6, 2, 1, 2, 2}}) {
    const Tensor x = random({2, 4, c.h, c.h}, 31), w = random({6, 4 / c.groups, c.k, c.k}, 32);
    const ConvOptions forward{
        .stride = {c.stride}, .padding = {c.padding}, .dilation = {c.dilation}, .groups = c.groups};
    const Tensor image = x.conv2d(w, {}, forward);
    const Tensor y = random(image.shape(), 33);
    ConvOptions backward = forward;
    const int64_t reached =
        (image.shape()[2].value() - 1) * c.stride - 2 * c.padding + c.dilation * (c.k - 1) + 1;
    backward.output_padding = {c.h - reached};
    const Tensor back = y.conv_transpose2d(w, {}, backward);
    REQUIRE(back.shape() == x.shape());
    CHECK((image * y).sum().item<double>() == doctest::Approx((x * back).sum().item<double>()).epsilon(1e-4));
  }
}

TEST_CASE("pooling") {
  const Tensor x = random({2, 3, 7, 5}, 41);
  const auto in = as_doubles(x);
  struct Case {
    int64_t k, stride, padding, dilation;
    bool include, ceil;
  };
  for (const Case& c : std::vector<Case>{{1, 1, 0, 1, true, false},
                                         {2, 2, 0, 1, true, false},
                                         {3, 2, 1, 1, true, false},
                                         {3, 2, 1, 1, false, false},
                                         {2, 2, 0, 1, true, true},
                                         {3, 3, 1, 1, false, true},
                                         {3, 3, 1, 1, true, true},
                                         {2, 1, 0, 2, true, false}}) {
    const PoolOptions options{.stride = {c.stride},
                              .padding = {c.padding},
                              .dilation = {c.dilation},
                              .count_include_pad = c.include,
                              .ceil_mode = c.ceil};
    const auto outputs = [&](int64_t n) {
      const int64_t span = n + 2 * c.padding - c.dilation * (c.k - 1) - 1;
      int64_t count = (c.ceil ? (span + c.stride - 1) / c.stride : span / c.stride) + 1;
      if (c.ceil && (count - 1) * c.stride >= n + c.padding) --count;
      return count;
    };
    std::vector<double> largest, average;
    for (int64_t plane = 0; plane < 6; ++plane)
      for (int64_t i = 0; i < outputs(7); ++i)
        for (int64_t j = 0; j < outputs(5); ++j) {
          double most = -kInf, sum = 0;
          int inside = 0, counted = 0;
          for (int64_t p = 0; p < c.k; ++p)
            for (int64_t q = 0; q < c.k; ++q) {
              const int64_t row = i * c.stride + p * c.dilation - c.padding,
                            column = j * c.stride + q * c.dilation - c.padding;
              counted += row < 7 + c.padding && column < 5 + c.padding;
              if (row < 0 || row >= 7 || column < 0 || column >= 5) continue;
              const double v = in[static_cast<size_t>((plane * 7 + row) * 5 + column)];
              most = std::max(most, v), sum += v, ++inside;
            }
          largest.push_back(most);
          average.push_back(sum / (c.include ? counted : inside));
        }
    check_close(as_doubles(x.max_pool2d({c.k}, options)), largest, 0);
    check_close(as_doubles(x.avg_pool2d({c.k}, options)), average, 2e-6);
  }
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
