// Remainder and floor division of floats on every device, to the bit, against what NumPy does (npy_divmod) with the C
// library's fmod: the cases that are known to go wrong, special values against each other, and random bits.
#include <doctest/doctest.h>

#include <random>

#include "support/device_run.hpp"

using namespace lathe;
using namespace lathe::test;

namespace {

template <class F> struct DivMod {
  F quotient, remainder;
};

template <class F> DivMod<F> divmod(F a, F b) {
  F rest = std::fmod(a, b);
  if (b == 0) return {a / b, rest};
  F ratio = (a - rest) / b;
  if (rest != 0) {
    if ((b < 0) != (rest < 0)) rest += b, ratio -= 1;
  } else {
    rest = std::copysign(F{0}, b);
  }
  F whole = std::copysign(F{0}, a / b);
  if (ratio != 0) {
    whole = std::floor(ratio);
    if (ratio - whole > F{0.5}) whole += 1;
  }
  return {whole, rest};
}

const double kSpecial[] = {0.0, -0.0, 1, -1, 3, -3, 5.5, -5.5, 0.1, -0.001, 61, 41, 1e20, -1e20, 2147483648.0, 36517, 0.75, 1e-3,
                           INFINITY, -INFINITY, NAN, 16777216, 16777217, 1e38, -3e38, 1e-38, 1e-45, 65504, 6e-8, 0x1p-1074,
                           0x1.fffffffffffffp1023, 0x1p-1022, 4503599627370497.5, 1e300, 1.0000000000000002};

/// Each special value by each, then random bits and numbers of one size.
std::pair<Elements, Elements> pairs_of(DType dtype, size_t count, uint64_t seed) {
  Elements a(dtype, count), b(dtype, count);
  std::mt19937_64 random(seed);
  const size_t n = std::size(kSpecial);
  for (size_t i = 0; i < count; ++i) {
    if (i < n * n) {
      a.put(i, Scalar::of_float(dtype, kSpecial[i / n]));
      b.put(i, Scalar::of_float(dtype, kSpecial[i % n]));
      continue;
    }
    const uint64_t x = random(), y = random();
    std::memcpy(a.at(i), &x, size_of(dtype));
    std::memcpy(b.at(i), &y, size_of(dtype));
    if (i % 3 == 0) { // a few times as large, or a multiple
      const double divisor = std::ldexp(static_cast<double>(y % 4096) + 1, -6) * (y >> 63 ? -1 : 1);
      const double times = x % 2 ? static_cast<double>(x % 1000) : std::ldexp(static_cast<double>(x >> 12), -40);
      b.put(i, Scalar::of_float(dtype, divisor));
      a.put(i, Scalar::of_float(dtype, b.get(i).as_float() * times * (x >> 63 ? -1 : 1)));
    }
  }
  return {a, b};
}

template <class F> void check(const std::string& device, DType dtype, const Elements& a, const Elements& b, const Memory& out) {
  const std::string name = to_string(dtype);
  bool mod = true, div = true; // one failure of each will do
  for (size_t i = 0; i < a.size(); ++i) {
    const F x = static_cast<F>(a.exact(i)), y = static_cast<F>(b.exact(i));
    const DivMod<F> want = divmod(x, y);
    const auto matches = [&](const std::string& which, F value) {
      const long double got = out.at(name + which).exact(i);
      if (identical(got, rounded_to(dtype, value))) return true;
      FAIL_CHECK(device, ", ", name, ": ", static_cast<double>(x), std::string(which == "_mod" ? " % " : " // "), static_cast<double>(y),
                 " is ", static_cast<double>(got), ", expected ", static_cast<double>(value));
      return false;
    };
    mod = mod && matches("_mod", want.remainder);
    div = div && matches("_div", want.quotient);
  }
}

} // namespace

TEST_CASE("remainders and floor divisions are NumPy's, to the bit") {
  for (const std::string& device : tested_devices()) {
    const size_t count = device == "interp" ? 4096 : 1 << 15;
    NamedTensors program;
    Memory in;
    for (DType d : {DType::F16, DType::BF16, DType::F32, DType::F64}) {
      const std::string name = to_string(d);
      std::tie(in[name + "_a"], in[name + "_b"]) = pairs_of(d, count, 7 + static_cast<uint64_t>(d));
      const Shape shape{Expr(static_cast<int64_t>(count))};
      const Tensor a = Tensor::input(name + "_a", shape, d), b = Tensor::input(name + "_b", shape, d);
      program.emplace(name + "_mod", a % b);
      program.emplace(name + "_div", floor_divide(a, b));
    }
    const Memory out = run_on(device, program, in);
    for (DType d : {DType::F16, DType::BF16, DType::F32}) {
      const std::string name = to_string(d);
      check<float>(device, d, in.at(name + "_a"), in.at(name + "_b"), out);
    }
    check<double>(device, DType::F64, in.at("f64_a"), in.at("f64_b"), out);
  }
}

TEST_CASE("remainders by numbers") {
  const auto mod = [](float a, double b) { return (Tensor::from({a}) % b).item<float>(); };
  const auto div = [](float a, double b) { return floor_divide(Tensor::from({a}), Tensor::scalar(static_cast<float>(b))).item<float>(); };
  CHECK(mod(2147483648.f, 3) == 2);
  CHECK(mod(1e20f, 3) == 2);
  CHECK(mod(5.5f, INFINITY) == 5.5f);
  CHECK(mod(-5.5f, INFINITY) == INFINITY);
  CHECK(std::isnan(mod(1, 0)));
  CHECK(std::isnan(mod(INFINITY, 3)));
  CHECK(mod(36517, 0.001) == std::fmod(36517.f, 0.001f));
  CHECK(std::signbit(mod(6, -3)));
  CHECK(div(1, 0) == INFINITY);
  CHECK(div(-1, 0) == -INFINITY);
  CHECK(std::isnan(div(0, 0)));
  CHECK(div(-1, INFINITY) == -1);
  CHECK(div(1, 0.1) == 9); // 0.1f is above a tenth
}
