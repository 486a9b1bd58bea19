// expand_math: how near its sequences come to the functions that they stand for, and what they do at the
// edges.
#include <doctest/doctest.h>

#include <fmt/format.h>

#include "ast/passes/prepare.hpp"
#include "unit/ast_run.hpp"

using namespace lathe;
using namespace lathe::ast;
using namespace lathe::ast::test;

namespace {

/// Distance in units of the last place of the result as f32 (of the smallest subnormal where that is larger).
double ulps(float got, double expected) {
  if (std::isnan(expected)) return std::isnan(got) ? 0 : 1e9;
  const float rounded = static_cast<float>(expected);
  if (std::isinf(rounded) || std::isinf(got)) {
    // The largest float may become infinity within an ulp.
    if (rounded == got) return 0;
    return std::abs(expected) > 3.402823e38 && std::abs(got) > 3.402823e38f ? 1 : 1e9;
  }
  int exponent;
  std::frexp(expected, &exponent);
  return std::abs(got - expected) / std::ldexp(1.0, std::max(exponent - 24, -149));
}

std::vector<float> apply(Op op, const std::vector<float>& x) {
  const int64_t n = static_cast<int64_t>(x.size());
  Kernel k = parse(fmt::format(
      "kernel k(x: f32[{0}] in, y: f32[{0}] out) {{\n for i in {0} {{\n y[i] = {1}(x[i])\n }}\n}}", n,
      op == Op::Exp2   ? "exp2"
      : op == Op::Log2 ? "log2"
                       : "sin"));
  k = expand_math(k);
  visit(k.body, [&](const Stmt& s, const std::vector<const For*>&) {
    if (const auto* store = std::get_if<Store>(&s.node))
      visit(store->value, [&](const ValueRef& v) { REQUIRE(v->op != op); });
  });
  verify(k);
  std::vector<float> in = x, y(x.size());
  interpret(k, {{in.data(), in.size() * 4}, {y.data(), y.size() * 4}}, {});
  return y;
}

/// A dense sample of all floats, by bits.
std::vector<float> all_floats() {
  std::vector<float> out;
  for (uint64_t bits = 0; bits < (uint64_t{1} << 32); bits += 1021) {
    const auto b = static_cast<uint32_t>(bits);
    float f;
    std::memcpy(&f, &b, 4);
    out.push_back(f);
  }
  return out;
}

} // namespace

TEST_CASE("expanded exp2, log2 and sin are close to the real ones") {
  const std::vector<float> everything = all_floats();
  const auto worst = [](Op op, const std::vector<float>& x, double (*f)(double)) {
    const auto y = apply(op, x);
    double most = 0;
    float at = 0;
    for (size_t i = 0; i < x.size(); ++i)
      if (const double e = ulps(y[i], f(x[i])); e > most) most = e, at = x[i];
    MESSAGE(std::string(to_string(op)), ": ", most, " ulp at ", at, " of ", x.size(), " floats");
    return most;
  };
  const auto real_exp2 = [](double v) { return std::exp2(v); };
  const auto real_log2 = [](double v) { return std::log2(v); };
  const auto real_sin = [](double v) { return std::sin(v); };
  CHECK(worst(Op::Exp2, everything, real_exp2) <= 1.0);
  CHECK(worst(Op::Log2, everything, real_log2) <= 1.25);
  std::vector<float> fewer; // the sequence for any angle is long
  for (size_t i = 0; i < everything.size(); i += 17) fewer.push_back(everything[i]);
  CHECK(worst(Op::Sin, fewer, real_sin) <= 1.25);

  std::mt19937 engine(5);
  std::vector<float> dense, around_one, angles;
  for (int i = 0; i < 1000000; ++i) {
    dense.push_back(std::uniform_real_distribution<float>(-152, 130)(engine));
    around_one.push_back(std::uniform_real_distribution<float>(0.5f, 2.f)(engine));
    if (i % 10 == 0) angles.push_back(std::uniform_real_distribution<float>(-1e5f, 1e5f)(engine));
  }
  for (int i = 0; i < 30000; ++i)
    angles.push_back(static_cast<float>(i * 3.14159265358979323846)); // nearly 0
  CHECK(worst(Op::Exp2, dense, real_exp2) <= 1.0);
  CHECK(worst(Op::Log2, around_one, real_log2) <= 1.25);
  CHECK(worst(Op::Sin, angles, real_sin) <= 1.25);
}

TEST_CASE("expanded functions at the edges") {
  const float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  const auto e = apply(Op::Exp2, {-inf, inf, nan, 0, 127, 128, -126, -149, -150.5f, 10, -3});
  CHECK(e[0] == 0);
  CHECK(e[1] == inf);
  CHECK(std::isnan(e[2]));
  CHECK(e[3] == 1);
  CHECK(e[4] == 0x1p127f);
  CHECK(e[5] == inf);
  CHECK(e[6] == 0x1p-126f);
  CHECK(e[7] == 0x1p-149f);
  CHECK(e[8] == 0);
  CHECK(e[9] == 1024);
  CHECK(e[10] == 0.125f);
  const auto l = apply(Op::Log2, {0, -0.f, -1, inf, nan, 1, 8, 0x1p-149f, 0x1p-126f, -inf});
  CHECK(l[0] == -inf);
  CHECK(l[1] == -inf);
  CHECK(std::isnan(l[2]));
  CHECK(l[3] == inf);
  CHECK(std::isnan(l[4]));
  CHECK(l[5] == 0);
  CHECK(l[6] == 3);
  CHECK(l[7] == -149);
  CHECK(l[8] == -126);
  CHECK(std::isnan(l[9]));
}

TEST_CASE("functions made of others are done in one step, and round less") {
  struct Made {
    const char* text;
    double (*real)(double);
    double low, high;
  };
  // The constants as f32: log2(e), ln(2), log10(2).
  const Made all[] = {
      {"exp2(x[i] * 1.4426950216293335:f32)", std::exp, -90, 88},
      {"exp2(x[i] * -1.4426950216293335:f32)", [](double v) { return std::exp(-v); }, -88, 90},
      {"log2(x[i]) * 0.6931471824645996:f32", std::log, 0, 1e30},
      {"log2(x[i]) * 0.30103000998497009:f32", std::log10, 0, 1e30},
      {"log2(x[i]) * 0.6931471824645996:f32 + 1:f32", [](double v) { return std::log(v) + 1; }, 2, 1e30},
      {"1:f32 - log2(x[i]) * 0.6931471824645996:f32", [](double v) { return 1 - std::log(v); }, 4, 1e30},
      {"cos(x[i])", std::cos, -1e9, 1e9},
  };
  for (const Made& made : all) {
    std::mt19937 engine(9);
    std::vector<float> x(20001), y(x.size());
    for (float& v : x)
      v = static_cast<float>(std::uniform_real_distribution<double>(made.low, made.high)(engine));
    Kernel k = parse(
        fmt::format("kernel k(x: f32[{0}] in, y: f32[{0}] out) {{\n for i in {0} {{\n y[i] = {1}\n }}\n}}",
                    x.size(), made.text));
    k = expand_math(k);
    verify(k);
    interpret(k, {{x.data(), x.size() * 4}, {y.data(), y.size() * 4}}, {});
    double most = 0;
    for (size_t i = 0; i < x.size(); ++i) most = std::max(most, ulps(y[i], made.real(x[i])));
    MESSAGE(std::string(made.text), ": ", most, " ulp");
    CHECK(most <= 2);
  }
}

TEST_CASE("sines of products that overflow are NaN") {
  for (const char* angle : {"", " + 1.5707963705062866:f32"}) {
    std::vector<float> x{1e25f, -1e25f, 3e19f, INFINITY, 1e18f, 2}, y(x.size());
    const std::string text =
        fmt::format("kernel k(x: f32[6] in, y: f32[6] out) {{\n for i in 6 {{\n y[i] = sin(x[i] * "
                    "x[i]{})\n }}\n}}",
                    angle);
    const Kernel k = expand_math(parse(text));
    verify(k);
    interpret(k, {{x.data(), x.size() * 4}, {y.data(), y.size() * 4}}, {});
    for (size_t i = 0; i < x.size(); ++i) {
      CAPTURE(x[i]);
      CHECK(std::isnan(y[i]) == (i < 4));
    }
  }
}

TEST_CASE("f16 and bf16 are expanded by way of f32, f64 is left alone") {
  for (const char* dtype : {"f16", "bf16", "f64"}) {
    const Kernel k = parse(fmt::format("kernel k(x: {0}[9] in, y: {0}[9] out) {{\n for i in 9 {{\n y[i] = "
                                       "exp2(x[i]) + log2(exp2(x[i]))\n }}\n}}",
                                       dtype));
    const Kernel out = expand_math(k);
    verify(out);
    CHECK((structural_hash(out) == structural_hash(k)) == (std::string(dtype) == "f64"));
    CHECK(run(out) == run(k));
  }
}

TEST_CASE("e^x of what has an upper bound needs no other") {
  const auto choices = [](const char* bounded) {
    const Kernel k = expand_math(parse(fmt::format("kernel k(x: f32[8] in, y: f32[8] out) {{\nfor i in 8 {{\n"
                                                   "y[i] = exp2({} * 1.442695:f32)\n}}\n}}",
                                                   bounded)));
    int count = 0;
    visit(std::get<Store>(std::get<For>(k.body[0].node).body[0].node).value,
          [&](const ValueRef& v) { count += v->op == Op::Where; });
    return count;
  };
  CHECK(choices("x[i]") == 2);
  CHECK(choices("where(x[i] < 88:f32, x[i], 88:f32)") == 2); // its own, and the lower one
  CHECK(choices("where(x[i] < 90:f32, x[i], 90:f32)") == 3); // not low enough
  CHECK(choices("where(88:f32 < x[i], x[i], 88:f32)") == 3); // a lower bound
}
