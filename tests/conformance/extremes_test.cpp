// Every elementwise function at special values, in every float dtype and on every device, against the C library in long
// double. The bounds are those of docs/numbers.md. LATHE_EXTREMES=print prints the worst of each.
#include <doctest/doctest.h>

#include <cstdlib>
#include <functional>

#include "support/extreme_values.hpp"

using namespace lathe;
using namespace lathe::test;

namespace {

using Real = long double;

struct Function {
  const char* name;
  std::function<Tensor(const Tensor&)> build;
  std::function<Real(Real)> exact;
  double f32 = 0, f64 = 0;  // ulp
  Real low = -HUGE_VALL, high = HUGE_VALL; // where these bounds hold; outside, 0 or infinity may come early
  bool signs = false;       // whether the sign of a zero is kept
};

Real sigmoid(Real x) { return x < 0 ? std::exp(x) / (1 + std::exp(x)) : 1 / (1 + std::exp(-x)); }
Real times_sigmoid(Real x, Real u) { return std::isinf(x) && x < 0 ? 0 : x * sigmoid(u); }
Real half_even(Real x) { return std::nearbyint(x); }

#define LATHE_FUNCTION(name, ...) {#name, [](const Tensor& x) { return x.name(); }, [](Real x) -> Real { return __VA_ARGS__; }
const std::vector<Function>& functions() {
  static const std::vector<Function> all = {
      LATHE_FUNCTION(neg, -x), 0, 0, -HUGE_VALL, HUGE_VALL, true},
      LATHE_FUNCTION(abs, std::fabs(x)), 0, 0, -HUGE_VALL, HUGE_VALL, true},
      LATHE_FUNCTION(sign, x > 0 ? 1 : x < 0 ? -1 : x)},
      LATHE_FUNCTION(square, x * x), 0.5, 0.5},
      LATHE_FUNCTION(sqrt, std::sqrt(x)), 0.5, 0.501, -HUGE_VALL, HUGE_VALL, true},
      LATHE_FUNCTION(rsqrt, 1 / std::sqrt(x)), 1.51, 1.51},
      LATHE_FUNCTION(reciprocal, 1 / x), 0.5, 0.501, -HUGE_VALL, HUGE_VALL, true},
      LATHE_FUNCTION(floor, std::floor(x))},
      LATHE_FUNCTION(ceil, std::ceil(x))},
      LATHE_FUNCTION(trunc, std::trunc(x)), 0, 0, -HUGE_VALL, HUGE_VALL, true},
      LATHE_FUNCTION(round, half_even(x))},
      LATHE_FUNCTION(exp, std::exp(x)), 1, 2},
      LATHE_FUNCTION(exp2, std::exp2(x)), 1, 1},
      LATHE_FUNCTION(expm1, std::expm1(x)), 4, 6},
      LATHE_FUNCTION(log, std::log(x)), 1, 2},
      LATHE_FUNCTION(log2, std::log2(x)), 1.25, 1},
      LATHE_FUNCTION(log10, std::log10(x)), 1, 3},
      LATHE_FUNCTION(log1p, std::log1p(x)), 3, 4},
      LATHE_FUNCTION(sin, std::sin(x)), 1.25, 1},
      LATHE_FUNCTION(cos, std::cos(x)), 1.25, 1},
      LATHE_FUNCTION(tan, std::tan(x)), 3.5, 3},
      LATHE_FUNCTION(sinh, std::sinh(x)), 4, 6},
      LATHE_FUNCTION(cosh, std::cosh(x)), 3, 6},
      LATHE_FUNCTION(tanh, std::tanh(x)), 1.5, 4},
      LATHE_FUNCTION(asin, std::asin(x)), 2.5, 2.5, -HUGE_VALL, HUGE_VALL, true},
      LATHE_FUNCTION(acos, std::acos(x)), 1.5, 1.5},
      LATHE_FUNCTION(atan, std::atan(x)), 1.75, 2, -HUGE_VALL, HUGE_VALL, true},
      LATHE_FUNCTION(asinh, std::asinh(x)), 3, 3.5, -HUGE_VALL, HUGE_VALL, true},
      LATHE_FUNCTION(acosh, std::acosh(x)), 3, 3.5},
      LATHE_FUNCTION(atanh, std::atanh(x)), 2, 2.5, -HUGE_VALL, HUGE_VALL, true},
      LATHE_FUNCTION(erf, std::erf(x)), 1.25, 16},
      LATHE_FUNCTION(sigmoid, sigmoid(x)), 2.5, 4},
      LATHE_FUNCTION(silu, times_sigmoid(x, x)), 3, 4, -85},
      LATHE_FUNCTION(softplus, std::isinf(x) ? std::max<Real>(x, 0) : std::max<Real>(x, 0) + std::log1p(std::exp(-std::fabs(x)))), 3, 4},
      LATHE_FUNCTION(relu, std::isnan(x) ? x : std::max<Real>(x, 0))},
      LATHE_FUNCTION(hardswish, x >= 3 ? x : x <= -3 ? 0 : std::isnan(x) ? x : x * (x + 3) / 6), 3, 3},
      LATHE_FUNCTION(elu, x > 0 ? x : std::expm1(x)), 4, 6},
      {"leaky_relu", [](const Tensor& x) { return x.leaky_relu(0.25); }, [](Real x) -> Real { return x < 0 ? x / 4 : x; }, 0.5, 0.501},
      {"clamp", [](const Tensor& x) { return x.clamp(-1.5, 2.5); },
       [](Real x) -> Real { return x < -1.5L ? -1.5L : x > 2.5L ? 2.5L : x; }},
  };
  return all;
}
#undef LATHE_FUNCTION

constexpr DType kFunctionDtypes[] = {DType::F16, DType::BF16, DType::F32, DType::F64};

/// Of f64's functions on OpenCL that the driver has; by the OpenCL specification.
constexpr double kDriverUlps = 4;
bool is_of_the_driver(std::string_view name) {
  return name == "sin" || name == "cos" || name == "log2" || name == "log10";
}

double bound(const Function& f, DType dtype, const std::string& device) {
  if (dtype == DType::F64 && device == "opencl" && is_of_the_driver(f.name)) return kDriverUlps;
  if (dtype == DType::F64) return f.f64;
  if (dtype == DType::F32) return f.f32;
  return f.f32 == 0 ? 0 : 0.502; // f32's error is less than a hundredth of a unit there
}

/// What falls short of docs/numbers.md today: "device function dtype", a `*` for any device. Empty when all is mended; a row
/// that holds after all fails, too.
const std::vector<std::string>& known_failures() {
  static const std::vector<std::string> all = {};
  return all;
}

bool is_known(const std::string& device, const std::string& what) {
  for (const std::string& row : known_failures())
    if (row == device + " " + what || row == "* " + what) return true;
  return false;
}

void check_extremes(const std::string& device) {
  constexpr size_t kCount = 1 << 16;
  NamedTensors program;
  Memory in;
  const size_t count = device == "interp" ? kCount / 8 : kCount;
  for (DType d : kFunctionDtypes) {
    const std::string name = to_string(d);
    in[name] = extreme_values(d, kCount, 31 + static_cast<uint64_t>(d));
    in[name].bytes.resize((is_half(d) ? kCount : count) * size_of(d));
    for (const Function& f : functions()) { // an input each, so that they share nothing
      const std::string output = std::string(f.name) + "_" + name;
      in["x_" + output] = in[name];
      program.emplace(output, f.build(Tensor::input("x_" + output, {Expr(static_cast<int64_t>(in[name].size()))}, d)));
    }
    in.erase(name);
  }
  const Memory out = run_on(device, program, in);
  const bool prints = std::getenv("LATHE_EXTREMES") != nullptr;
  for (DType d : kFunctionDtypes)
    for (const Function& f : functions()) {
      const std::string output = std::string(f.name) + "_" + to_string(d);
      const Elements &given = in.at("x_" + output), &got = out.at(output);
      double worst = 0, excess = 0;
      size_t at = 0, wrong = 0;
      for (size_t i = 0; i < given.size(); ++i) {
        const Real x = given.exact(i);
        if (x < f.low || x > f.high) continue;
        const double e = ulps_off(d, got.exact(i), f.exact(x), f.signs), over = e - bound(f, d, device);
        wrong += !(over <= 0);
        if (!(e <= worst)) worst = e;
        if (!(over <= excess)) excess = over, at = i;
      }
      const std::string what = std::string(f.name) + " " + to_string(d);
      const std::string text = device + ": " + what + " is off by up to " + std::to_string(worst) + " ulp; " + std::to_string(wrong) +
                               " beyond the bound, such as of " + to_string(given.get(at)) + ": " + to_string(got.get(at)) + ", exactly " +
                               std::to_string(static_cast<double>(f.exact(given.exact(at))));
      if (prints) MESSAGE(text);
      if (is_known(device, what))
        CHECK_MESSAGE(wrong > 0, what, " on ", device, " is mended: take it off the list");
      else
        CHECK_MESSAGE(wrong == 0, text);
    }
}

} // namespace

TEST_CASE("functions at special values") {
  for (const std::string& device : tested_devices()) check_extremes(device);
}
