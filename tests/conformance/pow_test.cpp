// pow of floats on every device: C's table of special values, exact powers, and its error over random arguments.
#include <doctest/doctest.h>

#include <random>

#include "support/device_run.hpp"

using namespace lathe;
using namespace lathe::test;

namespace {

const double kOperands[] = {0.0, -0.0, 1, -1, 2, -2, 3, -3, 0.5, -0.5, 1.5, -1.5, 4, 10, -10, 16, 17, -17, 33, INFINITY, -INFINITY,
                            NAN, 0x1p-149, -0x1p-149, 0x1p-1074, 0.999999, 1.0000001, -1.0000001, 16777215, 16777216, 16777217,
                            -16777215, 9007199254740991.0, 9007199254740992.0, -9007199254740991.0, 1e30, -1e30, 3.4e38, -3.4e38,
                            0x1.fffffffffffffp1023, 1e-30, -1e-30, 1.0 / 3, -1.0 / 3, 127, 128, -126, -149, -150, 1023, 1024, -1074};

double ulps(DType dtype, long double got, long double exact) {
  const bool is_double = dtype == DType::F64;
  const int digits = is_double ? 53 : dtype == DType::F32 ? 24 : dtype == DType::F16 ? 11 : 8;
  const int most = is_double ? 1023 : dtype == DType::F16 ? 15 : 127;
  if (identical(got, rounded_to(dtype, exact))) return 0;
  if (std::isnan(got) || std::isnan(exact) || std::signbit(got) != std::signbit(exact)) return INFINITY;
  const long double limit = std::ldexp(1.0L, most + 1);
  const long double a = std::isinf(got) ? std::copysign(limit, got) : got;
  const long double b = std::fabs(exact) > limit ? std::copysign(limit, exact) : exact;
  const int unit = std::max(b == 0 ? 1 - most : std::ilogb(b), 1 - most) - (digits - 1);
  return static_cast<double>(std::fabs(a - b) / std::ldexp(1.0L, unit));
}

/// Bounds of docs/numbers.md. Half precision is f32's result, rounded.
double bound(DType dtype) { return dtype == DType::F64 ? 1.25 : dtype == DType::F32 ? 1 : 0.502; }

struct Worst {
  double ulps = 0;
  long double a = 0, b = 0, got = 0, exact = 0;
};

Worst worst_of(const Elements& a, const Elements& b, const Elements& out) {
  Worst worst;
  for (size_t i = 0; i < a.size(); ++i) {
    const long double exact = std::pow(a.exact(i), b.exact(i));
    const double e = ulps(a.dtype, out.exact(i), exact);
    if (!(e <= worst.ulps)) worst = {e, a.exact(i), b.exact(i), out.exact(i), exact};
  }
  return worst;
}

void check(const std::string& device, const std::string& what, const Worst& w, double most) {
  CHECK_MESSAGE(w.ulps <= most, device, ", ", what, ": pow(", static_cast<double>(w.a), ", ", static_cast<double>(w.b), ") is ",
                static_cast<double>(w.got), ", expected ", static_cast<double>(w.exact), ", ", w.ulps, " ulp off");
}

constexpr DType kBases[] = {DType::F16, DType::BF16, DType::F32, DType::F64};

std::pair<Elements, Elements> arguments(DType dtype, size_t count) {
  Elements a(dtype, count), b(dtype, count);
  std::mt19937_64 random(11 + static_cast<uint64_t>(dtype));
  std::uniform_real_distribution<double> even(-1, 1);
  const size_t n = std::size(kOperands);
  const double range = dtype == DType::F64 ? 1100 : dtype == DType::F16 ? 26 : 152;
  for (size_t i = 0; i < count; ++i) {
    double x = i < n * n ? kOperands[i / n] : 0, y = i < n * n ? kOperands[i % n] : 0;
    if (i >= n * n) {
      constexpr double kNear[] = {1, 1e-2, 1e-4, 1e-6};
      x = std::exp2(even(random) * range * kNear[random() % 4]);
      const double exponent = Scalar::of_float(dtype, x).as_float();
      y = even(random) * range / std::log2(exponent);
      if (i % 5 == 0) x = static_cast<double>(random() % 100) - 50, y = static_cast<double>(random() % 40) - 20;
      if (!std::isfinite(y)) y = 2.5;
    }
    a.put(i, Scalar::of_float(dtype, x));
    b.put(i, Scalar::of_float(dtype, y));
  }
  return {a, b};
}

} // namespace

TEST_CASE("pow of tensors") {
  for (const std::string& device : tested_devices()) {
    const size_t count = device == "interp" ? 8192 : 1 << 16;
    NamedTensors program;
    Memory in;
    for (DType d : kBases) {
      const std::string name = to_string(d);
      std::tie(in[name + "_a"], in[name + "_b"]) = arguments(d, count);
      const Shape shape{Expr(static_cast<int64_t>(count))};
      program.emplace(name, pow(Tensor::input(name + "_a", shape, d), Tensor::input(name + "_b", shape, d)));
    }
    const Memory out = run_on(device, program, in);
    for (DType d : kBases) {
      const std::string name = to_string(d);
      check(device, name, worst_of(in.at(name + "_a"), in.at(name + "_b"), out.at(name)), bound(d));
    }
  }
}

TEST_CASE("pow by constants") {
  const double exponents[] = {0, 0.5, -0.5, 1, 2, 3, 4, 7, 16, 17, -1, -2, -3, -4, -17, 1.5, 1.0 / 3, -2.5, 33, INFINITY, -INFINITY, NAN};
  constexpr size_t kCount = 2048;
  for (const std::string& device : tested_devices()) {
    NamedTensors program;
    Memory in;
    for (DType d : {DType::F32, DType::F64}) {
      const std::string name = to_string(d);
      in[name] = arguments(d, 4096).first;
      in[name].bytes.erase(in[name].bytes.begin(), in[name].bytes.begin() + static_cast<std::ptrdiff_t>(1024 * size_of(d)));
      in[name].bytes.resize(kCount * size_of(d));
      for (size_t i = 0; i < std::size(kOperands); ++i) in[name].put(i, Scalar::of_float(d, kOperands[i]));
      const Tensor x = Tensor::input(name, {Expr(static_cast<int64_t>(kCount))}, d);
      for (size_t k = 0; k < std::size(exponents); ++k)
        program.emplace(name + "_" + std::to_string(k), pow(x, Tensor::full({}, Scalar::of_float(d, exponents[k]))));
    }
    const Memory out = run_on(device, program, in);
    for (DType d : {DType::F32, DType::F64})
      for (size_t k = 0; k < std::size(exponents); ++k) {
        Elements b(d, kCount);
        for (size_t i = 0; i < kCount; ++i) b.put(i, Scalar::of_float(d, exponents[k]));
        const double e = exponents[k];
        const bool product = e == std::trunc(e) && e >= 2 && e <= 16;
        const double most = product ? e - 1.49 : e == -2 ? 2.51 : e == -0.5 ? 1.51 : bound(d);
        const std::string name = to_string(d);
        check(device, name + " by " + std::to_string(e), worst_of(in.at(name), b, out.at(name + "_" + std::to_string(k))), most);
      }
  }
}
