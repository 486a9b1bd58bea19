#include "render/c_helpers.hpp"

#include <fmt/format.h>

#include "core/coefficients.hpp"
#include "render/c_ops.hpp"

namespace lathe::render {
namespace {

constexpr const char* kIndices = R"(
LATHE_FN int64_t lathe_min(int64_t a, int64_t b) { return a < b ? a : b; }
LATHE_FN int64_t lathe_max(int64_t a, int64_t b) { return a > b ? a : b; }
LATHE_FN int64_t lathe_floordiv(int64_t a, int64_t b) { return b == 0 ? 0 : a / b - (a % b != 0 && (a < 0) != (b < 0)); }
LATHE_FN int64_t lathe_floormod(int64_t a, int64_t b) { return a - lathe_floordiv(a, b) * b; }
)";

constexpr const char* kHalves = R"(
/* f16 and bf16 are computed in f32 and rounded to nearest even after every operation. */
LATHE_FN float lathe_value_bf16(uint16_t bits) { return lathe_bits_u32_to_f32((uint32_t)bits << 16); }
LATHE_FN uint16_t lathe_bits_bf16(float x) {
  const uint32_t bits = lathe_bits_f32_to_u32(x);
  if ((bits & 0x7FFFFFFFu) > 0x7F800000u) return (uint16_t)(bits >> 16 | 0x40u);
  return (uint16_t)((bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16);
}
#ifndef LATHE_HARDWARE_F16
LATHE_FN float lathe_value_f16(uint16_t bits) {
  const uint32_t sign = (uint32_t)(bits & 0x8000u) << 16, exponent = (bits >> 10) & 31u, mantissa = bits & 0x3FFu;
  if (exponent == 31) return lathe_bits_u32_to_f32(sign | 0x7F800000u | mantissa << 13);
  if (exponent == 0) return (sign ? -5.9604644775390625e-8f : 5.9604644775390625e-8f) * (float)mantissa;
  return lathe_bits_u32_to_f32(sign | (exponent + 112) << 23 | mantissa << 13);
}
LATHE_FN uint16_t lathe_bits_f16(float x) {
  const uint32_t bits = lathe_bits_f32_to_u32(x), sign = (bits >> 16) & 0x8000u, magnitude = bits & 0x7FFFFFFFu;
  if (magnitude > 0x7F800000u) return (uint16_t)(sign | 0x7E00u | ((magnitude >> 13) & 0x3FFu));
  if (magnitude >= 0x477FF000u) return (uint16_t)(sign | 0x7C00u);
  if (magnitude < 0x38800000u) /* adding 0.5 makes the hardware round to a multiple of 2^-24 */
    return (uint16_t)(sign | (lathe_bits_f32_to_u32(lathe_bits_u32_to_f32(magnitude) + 0.5f) - 0x3F000000u));
  return (uint16_t)(sign | ((magnitude + 0xFFFu + ((magnitude >> 13) & 1u) - 0x38000000u) >> 13));
}
#endif
/* What has more digits than a float as one that rounds to half precision as the value itself does: where none is
   equal, the odd one of its neighbours. An integer that is too long has its lowest bits made one above them. */
LATHE_FN float lathe_odd_f64(double x) {
  const float near_x = (float)x;
  const double back = (double)near_x;
  const uint32_t bits = lathe_bits_f32_to_u32(near_x);
  if (!(back < x || back > x) || (bits & 1u)) return near_x;
  return lathe_bits_u32_to_f32((back < x) == (bits >> 31 == 0) ? bits + 1u : bits - 1u);
}
LATHE_FN float lathe_odd_u32(uint32_t x) { return (float)(x >> 24 && (x & 255u) ? (x & ~(uint32_t)255u) | 256u : x); }
LATHE_FN float lathe_odd_i32(int32_t x) { return x < 0 ? -lathe_odd_u32(0u - (uint32_t)x) : lathe_odd_u32((uint32_t)x); }
LATHE_FN float lathe_odd_u64(uint64_t x) {
  return lathe_odd_f64((double)(x >> 53 && (x & 2047u) ? (x & ~(uint64_t)2047u) | 2048u : x));
}
LATHE_FN float lathe_odd_i64(int64_t x) { return x < 0 ? -lathe_odd_u64(0u - (uint64_t)x) : lathe_odd_u64((uint64_t)x); }
LATHE_FN float lathe_round_f16(float x) { return lathe_value_f16(lathe_bits_f16(x)); }
LATHE_FN float lathe_round_bf16(float x) { return lathe_value_bf16(lathe_bits_bf16(x)); }
)";

/// C's fmod, in integers. It divides the significands, in steps of eleven bits (double) or eight bits (float)
/// of the quotient.
std::string float_remainder(int bits) {
  const bool is_double = bits == 64;
  const int digits = is_double ? 52 : 23, step = bits - digits - 1;
  return fmt::format(R"(LATHE_FN {0} lathe_mod_f{1}({0} a, {0} b) {{
  const uint{1}_t one = 1, top = one << {2}, sign = lathe_bits_f{1}_to_u{1}(a) >> {3} << {3};
  const uint{1}_t x = lathe_bits_f{1}_to_u{1}(a) ^ sign, y = lathe_bits_f{1}_to_u{1}(b) & ~(one << {3});
  const uint{1}_t infinity = (one << {4}) - top;
  uint{1}_t rest = x & (top - 1), divisor = y & (top - 1);
  int exponent = (int)(x >> {2}), least = (int)(y >> {2});
  if (y == 0 || x >= infinity || y > infinity) return lathe_nan_f{1};
  if (x < y) return a;
  if (exponent) rest |= top; else exponent = 1;
  if (least) divisor |= top; else least = 1;
  rest %= divisor;
  while (exponent > least && rest) {{
    const int shift = exponent - least < {5} ? exponent - least : {5};
    rest = (rest << shift) % divisor;
    exponent -= shift;
  }}
  while (rest && rest < top && least > 1) {{
    rest <<= 1;
    --least;
  }}
  return lathe_bits_u{1}_to_f{1}(sign | (rest < top ? rest : rest - top + ((uint{1}_t)least << {2})));
}}
)",
                     is_double ? "double" : "float", bits, digits, bits - 1, bits - 1, step);
}

struct Integer {
  int bits;
  bool is_signed;
  std::string name() const { return fmt::format("{}{}", is_signed ? 'i' : 'u', bits); }
  std::string type() const { return fmt::format("{}int{}_t", is_signed ? "" : "u", bits); }
};
constexpr Integer kIntegers[] = {{8, true},  {16, true},  {32, true},  {64, true},
                                 {8, false}, {16, false}, {32, false}, {64, false}};

std::string arithmetic(const Integer& integer) {
  const bool is_signed = integer.is_signed;
  return fmt::format(
      R"(LATHE_FN {1} lathe_idiv_{0}({1} a, {1} b) {{ return b == 0 ? 0 : {3}({1})(a / b); }}
LATHE_FN {1} lathe_mod_{0}({1} a, {1} b) {{ return b == 0{4} ? 0 : ({1})(a % b); }}
LATHE_FN {1} lathe_shl_{0}({1} a, {1} b) {{ return (uint{2}_t)b < {2} ? ({1})((uint{2}_t)a << (uint{2}_t)b) : 0; }}
LATHE_FN {1} lathe_shr_{0}({1} a, {1} b) {{ return (uint{2}_t)b < {2} ? ({1})(a >> (uint{2}_t)b) : {5}; }}
)",
      integer.name(), integer.type(), integer.bits,
      is_signed ? fmt::format("b == -1 ? ({})(0u - (uint{}_t)a) : ", integer.type(), integer.bits) : "",
      is_signed ? " || b == -1" : "", is_signed ? "a < 0 ? -1 : 0" : "0");
}

/// The helper that converts a float to an integer and saturates. `above` is the least float that is too
/// large.
std::string saturation(const char* from, const Integer& to) {
  const bool is_double = from[1] == '6';
  const uint64_t greatest = ~uint64_t{0} >> (64 - to.bits + to.is_signed);
  const std::string greatest_text = fmt::format("{}{}", greatest, to.is_signed || to.bits < 32 ? "" : "u");
  const std::string least = to.is_signed ? fmt::format("(-{} - 1)", greatest) : "0";
  const std::string above =
      fmt::format("{:.1f}{}", static_cast<double>(greatest / 2 + 1) * 2, is_double ? "" : "f");
  return fmt::format("LATHE_FN {0} lathe_{1}_to_{2}({3} x) {{ "
                     "return x >= {4} ? {5} : x > ({3}){6} ? ({0})x : x != x ? 0 : {6}; }}\n",
                     to.type(), from, to.name(), is_double ? "double" : "float", above, greatest_text, least);
}

std::string coefficients() {
  std::string out =
      "\n/* Coefficients of functions: c3 is the factor of the third power. Parts of longer numbers. */\n";
  for (const NamedCoefficient& c : named_coefficients())
    out += fmt::format("#define {} {}\n", c.name, digits(c.value, c.dtype == DType::F64));
  return out;
}

} // namespace

std::string common_helpers() {
  std::string out = kIndices;
  out += "\n/* Integers wrap; division by zero gives 0; a shift by the width or more gives 0, or -1 for a "
         "negative value. */\n";
  for (const Integer& integer : kIntegers) out += arithmetic(integer);
  out += "\n/* Float to integer truncates, saturates and maps NaN to 0. */\n";
  for (const Integer& to : kIntegers)
    for (const char* from : {"f32", "f64"}) out += saturation(from, to);
  out += "\n/* The remainder of floats is exact. */\n" + float_remainder(32) + float_remainder(64);
  return out + kHalves + coefficients();
}

} // namespace lathe::render
