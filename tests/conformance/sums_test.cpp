// Quotients, products, long sums and norms keep the digits that docs/numbers.md promises, on every device.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "lathe/gradient.hpp"
#include "support/devices.hpp"

using namespace lathe;

namespace {

template <class T>
std::vector<T> run_on(const std::string& device, const Tensor& y, const NamedTensors& inputs) {
  return compile({{"y", y}}, on(device))(inputs).at("y").to_vector<T>();
}

/// Of the results of x / c for whole multiples and fractions of c: all are what IEEE division gives.
template <class T> void check_quotients(const std::string& device, DType dtype) {
  std::vector<T> values;
  for (int k = 1; k <= 257; ++k) values.push_back(static_cast<T>(k) * (k % 2 ? T(61) : T(0.37)));
  const Tensor x = Tensor::input("x", {257}, dtype), data = Tensor::from(values);
  for (const double c : {61.0, 41.0, 3.0, 49.0, 0.1, 255.0, -7.0, 4.0, 1e-30, 3e30}) {
    const auto by_constant = run_on<T>(device, x / c, {{"x", data}});
    const Tensor d = Tensor::input("d", {}, dtype);
    const auto by_scalar =
        run_on<T>(device, x / d, {{"x", data}, {"d", Tensor::full({}, static_cast<T>(c))}});
    for (size_t k = 0; k < values.size(); ++k) {
      const T want = values[k] / static_cast<T>(c);
      CAPTURE(device);
      CAPTURE(c);
      CHECK(by_constant[k] == want);
      CHECK(by_scalar[k] == want);
    }
  }
}

} // namespace

TEST_CASE("a quotient is rounded once") {
  for (const std::string& device : present_devices()) {
    check_quotients<float>(device, DType::F32);
    check_quotients<double>(device, DType::F64);
    // Whole quotients stay whole.
    std::vector<float> multiples;
    for (int k = 1; k <= 40; ++k) multiples.push_back(61.0f * static_cast<float>(k));
    const Tensor x = Tensor::input("x", {40});
    const auto whole = run_on<float>(device, (x / 61).floor(), {{"x", Tensor::from(multiples)}});
    for (int k = 1; k <= 40; ++k) CHECK(whole[k - 1] == k);
    std::vector<uint8_t> bytes;
    for (int k = 0; k < 256; ++k) bytes.push_back(static_cast<uint8_t>(k));
    const Tensor b = Tensor::input("b", {256}, DType::U8);
    const auto shares = run_on<double>(device, b / 255.0, {{"b", Tensor::from(bytes)}});
    for (int k = 0; k < 256; ++k) CHECK(shares[k] == k / 255.0);
  }
}

namespace {

/// `values` times one more than a third, so that every product is rounded.
template <class T> void check_shared_products(const std::string& device, DType dtype) {
  std::vector<T> values;
  for (int k = 0; k < 37; ++k) values.push_back(static_cast<T>(3e8 + k * 1.7e7 + 1.0 / 3));
  const Tensor x = Tensor::input("x", {37}, dtype), s = Tensor::input("s", {}, dtype);
  const NamedTensors inputs{{"x", Tensor::from(values)}, {"s", Tensor::full({}, static_cast<T>(4.0 / 3))}};
  CAPTURE(device);
  CAPTURE(to_string(dtype));
  for (const Tensor& product : {x * s, -x * s, x.reshape({37, 1}).matmul(s.reshape({1, 1})).reshape({37})}) {
    const auto from_max = run_on<T>(device, product.max() - product, inputs);
    CHECK(*std::min_element(from_max.begin(), from_max.end()) == 0);
    CHECK(run_on<T>(device, product.logsumexp({0}), inputs) == run_on<T>(device, product.max(), inputs));
    const auto shares = run_on<T>(device, product.softmax(0), inputs);
    CHECK(*std::max_element(shares.begin(), shares.end()) == 1);
    for (const T v : run_on<T>(device, product - product.contiguous(), inputs)) CHECK(v == 0);
  }
  const Tensor product = x * s;
  const auto both = compile({{"p", product}, {"d", product - 1}}, on(device))(inputs);
  const auto p = both.at("p").to_vector<T>(), d = both.at("d").to_vector<T>();
  for (size_t k = 0; k < p.size(); ++k) CHECK(d[k] == p[k] - 1);
}

} // namespace

TEST_CASE("a product that is read twice is one number") {
  for (const std::string& device : present_devices()) {
    check_shared_products<float>(device, DType::F32);
    check_shared_products<double>(device, DType::F64);
  }
}

TEST_CASE("means divide once") {
  for (const std::string& device : present_devices())
    for (const int64_t n : {3, 7, 41, 49, 61, 100, 1000}) {
      const Tensor x = Tensor::input("x", {n});
      CAPTURE(device);
      CAPTURE(n);
      CHECK(run_on<float>(device, x.mean(), {{"x", Tensor::ones({n})}})[0] == 1);
      CHECK(run_on<float>(device, x.softmax(0), {{"x", Tensor::ones({n})}})[0] ==
            1.0f / static_cast<float>(n));
    }
}

TEST_CASE("quotients by powers of two are products, and the same to the bit") {
  const std::vector<float> values{1, -3, 1e-38f, 1e-44f, 3e38f, -0.0f, INFINITY};
  const Tensor x = Tensor::input("x", {7});
  for (const std::string& device : present_devices())
    for (const double c : {0.5, 2.0, -0x1p100, 0x1p126, 0x1p127, 0x1p-126}) {
      const auto got = run_on<float>(device, x / c, {{"x", Tensor::from(values)}});
      for (size_t k = 0; k < values.size(); ++k) {
        const float want = values[k] / static_cast<float>(c);
        if (device == "opencl" && std::fpclassify(want) == FP_SUBNORMAL) continue; // may be flushed
        CHECK(got[k] == want);
        CHECK(std::signbit(got[k]) == std::signbit(want));
      }
    }
}

TEST_CASE("long sums keep their digits") {
  // The sum of n times 0.1f, which adding in order gets wrong by 0.25 % for 2^24.
  const auto check = [](const std::string& device, const Tensor& x, const Tensor& y, const Tensor& data,
                        double want) {
    const float got = run_on<float>(device, y, {{"x", data}})[0];
    CAPTURE(device);
    CAPTURE(to_string(x.shape()));
    CAPTURE(got);
    CAPTURE(want);
    CHECK(std::fabs(got - want) <= 4e-7 * std::fabs(want)); // 7 units of the last place
  };
  const double tenth = static_cast<double>(0.1f);
  for (const std::string& device : present_devices()) {
    const std::vector<int64_t> lengths = device == "cpu"
                                             ? std::vector<int64_t>{8193, 100003, 1 << 20, 1 << 24, 20000003}
                                             : std::vector<int64_t>{100003};
    for (const int64_t n : lengths) {
      const Tensor x = Tensor::input("x", {n}), data = Tensor::full({n}, 0.1f).contiguous().realise();
      check(device, x, x.sum(), data, tenth * static_cast<double>(n));
      check(device, x, x.mean(), data, tenth);
    }
    if (device != "cpu") continue;
    // Several axes, the last of them kept.
    const Tensor x = Tensor::input("x", {64, 200, 112, 3}),
                 data = Tensor::full({64, 200, 112, 3}, 0.1f).contiguous().realise();
    check(device, x, x.sum({0, 1, 2}), data, tenth * 64 * 200 * 112);
    const Tensor v = Tensor::input("x", {1 << 22}),
                 ones = Tensor::full({1 << 22}, 0.1f).contiguous().realise();
    check(device, v, v.dot(Tensor::ones({1 << 22})), ones, tenth * (1 << 22));
    CHECK(run_on<float>(device, v.var(), {{"x", ones}})[0] < 1e-14f);
  }
}

TEST_CASE("derivatives of long sums are ones") {
  const Tensor x = Tensor::from(std::vector<float>(20011, 3));
  for (const float v : gradients((x * 2).sum(), {x})[0].to_vector<float>()) REQUIRE(v == 2);
  for (const float v : gradients((x * x).sum(), {x})[0].to_vector<float>()) REQUIRE(v == 6);
}

TEST_CASE("norms of very large and very small values") {
  const std::vector<float> shape{1, -2, 3, -4, 0.5f, 0, 7, -1};
  const auto scaled_by = [&](float factor) {
    std::vector<float> values;
    for (const float v : shape) values.push_back(v * factor);
    return Tensor::from(values, {1, 8});
  };
  const Tensor x = Tensor::input("x", {1, 8});
  for (const std::string& device : present_devices()) {
    // Where eps does not matter the result is that of the plain values, whatever their size.
    const auto norm = [&](const Tensor& y, float factor) {
      return run_on<float>(device, y, {{"x", scaled_by(factor)}});
    };
    for (const Tensor& y : {x.layer_norm({1}, {}, {}, 0), x.rms_norm({1}, {}, 0)}) {
      const auto plain = norm(y, 1);
      for (const float factor : {1e10f, 2e12f, 1e20f, 1e30f, 4e37f}) {
        const auto large = norm(y, factor);
        CAPTURE(device);
        CAPTURE(factor);
        for (size_t k = 0; k < plain.size(); ++k) CHECK(large[k] == doctest::Approx(plain[k]).epsilon(2e-6));
      }
    }
    const auto large = norm(x.layer_norm({1}), 1e30f), plain = norm(x.layer_norm({1}, {}, {}, 0), 1);
    for (size_t k = 0; k < plain.size(); ++k) CHECK(large[k] == doctest::Approx(plain[k]).epsilon(2e-6));
    for (const float v : norm(x.layer_norm({1}) * 0 + x.rms_norm({1}), 1e-30f)) CHECK(std::isfinite(v));
    CHECK(norm(x.rms_norm({1}), 1e-30f)[2] == doctest::Approx(3e-30 / std::sqrt(1e-5)).epsilon(2e-6));
  }
  // Equal values have no spread.
  const Tensor same = Tensor::full({1, 8}, 1e30f).contiguous().realise();
  for (const float v : same.layer_norm({1}).to_vector<float>()) CHECK(std::fabs(v) < 1e-2);
}

TEST_CASE("rows of two integers, summed as a whole") {
  for (const std::string& device : present_devices())
    for (const int64_t rows : {5, 16, 17, 19, 33}) {
      std::vector<int32_t> values(static_cast<size_t>(rows) * 2);
      int32_t want = 0;
      for (size_t k = 0; k < values.size(); ++k) want += values[k] = static_cast<int32_t>(k * 7 % 13);
      const Tensor x = Tensor::input("x", {rows, 2}, DType::I32);
      const NamedTensors inputs{{"x", Tensor::from(values, {rows, 2})}};
      CAPTURE(device);
      CAPTURE(rows);
      CHECK(run_on<int32_t>(device, einsum("ij->", {x}), inputs) == std::vector<int32_t>{want});
    }
}
