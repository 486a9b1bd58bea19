// Functions of f32 against the C library in double precision: over a sample of all floats on every device,
// and over all 2^32 of them where LATHE_FUNCTION_STEP=1 asks for it. The bounds are those that
// docs/numbers.md states.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "support/devices.hpp"

using namespace lathe;

namespace {

double sigmoid(double x) { return x < 0 ? std::exp(x) / (1 + std::exp(x)) : 1 / (1 + std::exp(-x)); }

struct Case {
  const char* name;
  std::function<Tensor(const Tensor&)> build;
  double (*exact)(double);
  double ulps;
  double low = -INFINITY, high = INFINITY; // where the bound holds
};

const std::vector<Case>& cases() {
  static const std::vector<Case> all = {
      {"exp", [](const Tensor& x) { return x.exp(); }, std::exp, 1},
      {"exp2", [](const Tensor& x) { return x.exp2(); }, std::exp2, 1},
      {"expm1", [](const Tensor& x) { return x.expm1(); }, std::expm1, 4},
      {"log", [](const Tensor& x) { return x.log(); }, std::log, 1},
      {"log2", [](const Tensor& x) { return x.log2(); }, std::log2, 1.25},
      {"log10", [](const Tensor& x) { return x.log10(); }, std::log10, 1},
      {"log1p", [](const Tensor& x) { return x.log1p(); }, std::log1p, 3},
      {"sin", [](const Tensor& x) { return x.sin(); }, std::sin, 1.25},
      {"cos", [](const Tensor& x) { return x.cos(); }, std::cos, 1.25},
      {"tan", [](const Tensor& x) { return x.tan(); }, std::tan, 3.5},
      {"sinh", [](const Tensor& x) { return x.sinh(); }, std::sinh, 4},
      {"cosh", [](const Tensor& x) { return x.cosh(); }, std::cosh, 2.5},
      {"tanh", [](const Tensor& x) { return x.tanh(); }, std::tanh, 1.5},
      {"asin", [](const Tensor& x) { return x.asin(); }, std::asin, 2.5},
      {"acos", [](const Tensor& x) { return x.acos(); }, std::acos, 1.5},
      {"atan", [](const Tensor& x) { return x.atan(); }, std::atan, 1.75},
      {"asinh", [](const Tensor& x) { return x.asinh(); }, std::asinh, 3},
      {"acosh", [](const Tensor& x) { return x.acosh(); }, std::acosh, 3},
      {"atanh", [](const Tensor& x) { return x.atanh(); }, std::atanh, 2},
      {"erf", [](const Tensor& x) { return x.erf(); }, std::erf, 1.25},
      {"sigmoid", [](const Tensor& x) { return x.sigmoid(); }, sigmoid, 2.5},
      {"silu", [](const Tensor& x) { return x.silu(); }, [](double x) { return x * sigmoid(x); }, 3, -85},
      {"softplus", [](const Tensor& x) { return x.softplus(); },
       [](double x) { return std::max(x, 0.0) + std::log1p(std::exp(-std::fabs(x))); }, 3},
  };
  return all;
}

/// In units of the last place of the result as f32, of the smallest subnormal where that is larger.
double ulps(float got, double exact) {
  if (std::isnan(exact) || std::isnan(got)) return std::isnan(exact) && std::isnan(got) ? 0 : INFINITY;
  if (std::isinf(got) || std::isinf(static_cast<float>(exact))) {
    if (static_cast<float>(exact) == got) return 0;
    // The largest float may become infinity within an ulp.
    return std::fabs(exact) > 3.402823e38 && std::fabs(got) > 3.402823e38f ? 1 : INFINITY;
  }
  const int exponent = exact == 0 ? -126 : std::max(std::ilogb(exact), -126);
  return std::fabs(got - exact) / std::ldexp(1.0, exponent - 23);
}

float from_bits(uint32_t bits) {
  float x;
  std::memcpy(&x, &bits, sizeof x);
  return x;
}

uint64_t step_of(uint64_t usual) {
  const char* step = std::getenv("LATHE_FUNCTION_STEP");
  return step ? std::max<uint64_t>(1, std::strtoull(step, nullptr, 10)) : usual;
}

void check_device(const std::string& device, uint64_t step) {
  constexpr int64_t kChunk = 1 << 15;
  // An input each, so that they share nothing.
  NamedTensors outputs;
  std::map<std::string, const void*> inputs;
  std::vector<float> in(kChunk);
  for (const Case& c : cases()) {
    const std::string name = std::string("x_") + c.name;
    outputs.emplace(c.name, c.build(Tensor::input(name, {Expr(kChunk)})));
    inputs[name] = in.data();
  }
  CompileOptions options;
  options.device = device;
  options.threads = 1;
  const Executable run = compile(outputs, options);
  std::vector<std::vector<float>> out(cases().size(), std::vector<float>(kChunk));
  std::map<std::string, void*> results;
  for (size_t k = 0; k < cases().size(); ++k) results[cases()[k].name] = out[k].data();
  std::vector<double> worst(cases().size(), 0);
  std::vector<float> at(cases().size(), 0);
  for (uint64_t begin = 0; begin < uint64_t{1} << 32; begin += step * kChunk) {
    for (int64_t i = 0; i < kChunk; ++i) {
      const uint64_t bits = begin + static_cast<uint64_t>(i) * step;
      in[i] = from_bits(bits < uint64_t{1} << 32 ? static_cast<uint32_t>(bits) : 0);
    }
    run.run(inputs, results);
    for (size_t k = 0; k < cases().size(); ++k) {
      const Case& c = cases()[k];
      for (int64_t i = 0; i < kChunk; ++i) {
        if (in[i] < c.low || in[i] > c.high) continue;
        const double e = ulps(out[k][i], c.exact(in[i]));
        if (!(e <= worst[k])) worst[k] = e, at[k] = in[i];
      }
    }
  }
  for (size_t k = 0; k < cases().size(); ++k) {
    MESSAGE(device, ": ", std::string(cases()[k].name), " ", worst[k], " ulp at ", at[k]);
    CHECK_MESSAGE(worst[k] <= cases()[k].ulps, std::string(cases()[k].name), " on ", device);
  }
}

} // namespace

TEST_CASE("functions keep their stated errors over all floats") {
  const bool all = std::getenv("LATHE_FUNCTION_STEP") != nullptr;
  if (has_device("cpu")) check_device("cpu", step_of(8191));
  if (all) return;
  for (const char* device : {"c", "opencl"})
    if (has_device(device)) check_device(device, 65537);
}

TEST_CASE("gelu by tanh is off by less than a digit of x, however far out") {
  std::vector<float> in{-1e20f, -200, -30, -12, -10.1f, -10, -9.9f, -3, -1e-3f, 0, 1e-3f, 3, 12, 1e20f, NAN};
  for (const DType dtype : {DType::F32, DType::F64}) {
    const Tensor y = Tensor::from(in).cast(dtype).gelu(true).cast(DType::F64);
    const std::vector<double> out = y.to_vector<double>();
    for (size_t i = 0; i + 1 < in.size(); ++i) {
      CAPTURE(in[i]);
      const double x = in[i], u = 2 * std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x);
      const double digit = dtype == DType::F32 ? 1e-7 : 1e-15;
      CHECK(std::fabs(out[i] - x * sigmoid(std::max(u, -700.0))) <= digit * std::fabs(x));
    }
    CHECK(std::isnan(out.back()));
  }
}

TEST_CASE("functions at the edges") {
  const float inf = INFINITY, least = 0x1p-149f;
  struct Edge {
    const char* name;
    float x, y;
  };
  const Edge edges[] = {
      {"exp", -inf, 0},
      {"exp", inf, inf},
      {"exp", 0, 1},
      {"exp", 89, inf},
      {"exp2", 127, 0x1p127f},
      {"exp2", 128, inf},
      {"exp2", -126, 0x1p-126f},
      {"exp2", -149, least},
      {"exp2", 10, 1024},
      {"exp2", -3, 0.125f},
      {"exp2", -inf, 0},
      {"expm1", -inf, -1},
      {"expm1", inf, inf},
      {"log", 0, -inf},
      {"log", -0.f, -inf},
      {"log", -1, NAN},
      {"log", inf, inf},
      {"log", 1, 0},
      {"log2", 8, 3},
      {"log2", least, -149},
      {"log2", -inf, NAN},
      {"log10", 1, 0},
      {"log1p", -1, -inf},
      {"log1p", -2, NAN},
      {"log1p", inf, inf},
      {"sin", inf, NAN},
      {"cos", -inf, NAN},
      {"cos", 0, 1},
      {"tan", inf, NAN},
      {"sinh", -inf, -inf},
      {"cosh", -inf, inf},
      {"cosh", 0, 1},
      {"tanh", inf, 1},
      {"tanh", -inf, -1},
      {"asin", least, least},
      {"asin", 1.0001f, NAN},
      {"acos", 1, 0},
      {"acos", -1.0001f, NAN},
      {"acos", -1, static_cast<float>(M_PI)},
      {"atan", inf, static_cast<float>(M_PI / 2)},
      {"atan", -inf, static_cast<float>(-M_PI / 2)},
      {"asinh", inf, inf},
      {"asinh", -inf, -inf},
      {"asinh", -least, -least},
      {"acosh", 1, 0},
      {"acosh", inf, inf},
      {"acosh", 0.9999f, NAN},
      {"acosh", -2, NAN},
      {"acosh", -inf, NAN},
      {"atanh", 1, inf},
      {"atanh", -1, -inf},
      {"atanh", 1.0001f, NAN},
      {"atanh", inf, NAN},
      {"erf", inf, 1},
      {"erf", -inf, -1},
      {"sigmoid", inf, 1},
      {"sigmoid", -inf, 0},
      {"sigmoid", 0, 0.5f},
      {"softplus", -inf, 0},
      {"softplus", inf, inf},
      {"silu", inf, inf},
  };
  for (const Case& c : cases()) {
    std::vector<float> x, y;
    for (const Edge& e : edges)
      if (std::string(e.name) == c.name) x.push_back(e.x), y.push_back(e.y);
    x.push_back(NAN), y.push_back(NAN);
    const auto got = c.build(Tensor::from(x)).to_vector<float>();
    for (size_t i = 0; i < x.size(); ++i)
      CHECK_MESSAGE((std::isnan(y[i]) ? std::isnan(got[i]) : got[i] == y[i]), std::string(c.name), " of ",
                    x[i], ": ", got[i], " for ", y[i]);
  }
}

TEST_CASE("a result that is infinite is so in a sum, which may be fused with the function's last product") {
  const float inf = INFINITY;
  std::vector<float> in, added;
  for (const float x :
       {inf, -inf, 88.73f, -88.73f, 89.0f, 100.0f, 127.5f, 128.0f, 129.0f, 200.0f, 1e38f, -1e38f, 1.0f, 0.0f})
    for (const float y : {inf, -inf, 3e38f, -3e38f, 0.0f}) in.push_back(x), added.push_back(y);
  for (const std::string& device : present_devices())
    for (const Case& c : cases()) {
      if (std::ranges::none_of(in, [&](float v) { return std::isinf(static_cast<float>(c.exact(v))); }))
        continue;
      const auto count = static_cast<int64_t>(in.size());
      const Tensor x = Tensor::input("x", {count}), y = Tensor::input("y", {count}), f = c.build(x);
      const NamedTensors fed{{"x", Tensor::from(in)}, {"y", Tensor::from(added)}};
      const auto alone =
          compile({{"f", f}}, on(device))({{"x", Tensor::from(in)}}).at("f").to_vector<float>();
      const NamedTensors got = compile({{"plus", f + y}, {"minus", y - f}}, on(device))(fed);
      const auto plus = got.at("plus").to_vector<float>(), minus = got.at("minus").to_vector<float>();
      for (size_t i = 0; i < in.size(); ++i) {
        if (std::isfinite(alone[i])) continue;
        INFO(device, ": ", std::string(c.name), " of ", in[i], " is ", alone[i], ", beside ", added[i]);
        const float sum = alone[i] + added[i], difference = added[i] - alone[i];
        CHECK((std::isnan(sum) ? std::isnan(plus[i]) : plus[i] == sum));
        CHECK((std::isnan(difference) ? std::isnan(minus[i]) : minus[i] == difference));
      }
    }
}

TEST_CASE("a function of many steps, chosen by a condition that is the same for all elements") {
  for (const std::string& device : present_devices())
    for (const int64_t n : {2, 17, 64})
      for (const bool takes : {false, true}) {
        const Tensor x = Tensor::input("x", {n}), c = Tensor::input("c", {}, DType::Bool),
                     other = Tensor::input("o", {}, DType::BF16);
        const Executable run = compile({{"y", where(c, x.gelu(), other)}}, on(device));
        const Tensor data = Tensor::randn({n}, 5).realise();
        const auto got = run({{"x", data},
                              {"c", Tensor::from(std::vector<bool>{takes}, {})},
                              {"o", Tensor::full({}, 0.25f).cast(DType::BF16)}})
                             .at("y")
                             .to_vector<float>();
        const auto in = data.to_vector<float>();
        for (size_t k = 0; k < got.size(); ++k) {
          const double want = takes ? 0.5 * in[k] * (1 + std::erf(in[k] / std::sqrt(2.0))) : 0.25;
          CHECK_MESSAGE(std::abs(got[k] - want) <= 1e-6, device, " n ", n, " element ", k);
        }
      }
}

TEST_CASE("comparisons of a function of many steps, beside other elements") {
  for (const std::string& device : present_devices())
    for (const DType dtype : {DType::F32, DType::F64, DType::F16})
      for (const int64_t n : {1, 2, 17}) {
        const Tensor x = Tensor::input("x", {n}, dtype), more = Tensor::input("m", {3}, DType::Bool);
        const Executable run = compile({{"y", concat({x.tan() == 0, more}, 0)}}, on(device));
        const Tensor zeros = Tensor::zeros({n}, dtype);
        const auto got = run({{"x", zeros}, {"m", Tensor::from(std::vector<bool>{true, false, true}, {3})}})
                             .at("y")
                             .to_vector<uint8_t>();
        std::vector<uint8_t> want(static_cast<size_t>(n) + 3, 1);
        want[want.size() - 2] = 0;
        CAPTURE(device);
        CAPTURE(n);
        CHECK(got == want);
      }
}
