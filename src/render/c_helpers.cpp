#include "render/c_helpers.hpp"

namespace lathe::render {

const char* common_helpers() {
  return R"(LATHE_FN int64_t lathe_min(int64_t a, int64_t b) { return a < b ? a : b; }
LATHE_FN int64_t lathe_max(int64_t a, int64_t b) { return a > b ? a : b; }
LATHE_FN int64_t lathe_floordiv(int64_t a, int64_t b) { return a / b - (a % b != 0 && (a < 0) != (b < 0)); }
LATHE_FN int64_t lathe_floormod(int64_t a, int64_t b) { return a - lathe_floordiv(a, b) * b; }

/* Integers wrap; division by zero gives 0; a shift by the width or more gives 0, or -1 for a negative value. */
#define LATHE_INTEGER(name, T, U, SIGNED) \
  LATHE_FN T lathe_idiv_##name(T a, T b) { return b == 0 ? 0 : SIGNED && b == (T)-1 ? (T)(0u - (U)a) : (T)(a / b); } \
  LATHE_FN T lathe_mod_##name(T a, T b) { return b == 0 || (SIGNED && b == (T)-1) ? 0 : (T)(a % b); } \
  LATHE_FN T lathe_shl_##name(T a, T b) { return (U)b < 8 * sizeof(T) ? (T)((U)a << (U)b) : 0; } \
  LATHE_FN T lathe_shr_##name(T a, T b) { \
    return (U)b < 8 * sizeof(T) ? (T)(a >> (U)b) : SIGNED && a < (T)1 && a != 0 ? (T)-1 : 0; \
  }
LATHE_INTEGER(i8, int8_t, uint8_t, 1)
LATHE_INTEGER(i16, int16_t, uint16_t, 1)
LATHE_INTEGER(i32, int32_t, uint32_t, 1)
LATHE_INTEGER(i64, int64_t, uint64_t, 1)
LATHE_INTEGER(u8, uint8_t, uint8_t, 0)
LATHE_INTEGER(u16, uint16_t, uint16_t, 0)
LATHE_INTEGER(u32, uint32_t, uint32_t, 0)
LATHE_INTEGER(u64, uint64_t, uint64_t, 0)

/* Float to integer truncates, saturates and maps NaN to 0. `above` is the first float out of range. */
#define LATHE_SATURATE_FROM(from, F, to, T, least, above, greatest) \
  LATHE_FN T lathe_##from##_to_##to(F x) { return x >= above ? greatest : x > (F)(least) ? (T)x : x != x ? 0 : least; }
#ifdef LATHE_HAS_F64
#define LATHE_SATURATE(to, T, least, above, greatest) \
  LATHE_SATURATE_FROM(f32, float, to, T, least, above##f, greatest) \
  LATHE_SATURATE_FROM(f64, double, to, T, least, above, greatest)
#else
#define LATHE_SATURATE(to, T, least, above, greatest) LATHE_SATURATE_FROM(f32, float, to, T, least, above##f, greatest)
#endif
LATHE_SATURATE(i8, int8_t, -128, 128.0, 127)
LATHE_SATURATE(i16, int16_t, -32768, 32768.0, 32767)
LATHE_SATURATE(i32, int32_t, (-2147483647 - 1), 2147483648.0, 2147483647)
LATHE_SATURATE(i64, int64_t, (-9223372036854775807 - 1), 9223372036854775808.0, 9223372036854775807)
LATHE_SATURATE(u8, uint8_t, 0, 256.0, 255)
LATHE_SATURATE(u16, uint16_t, 0, 65536.0, 65535)
LATHE_SATURATE(u32, uint32_t, 0, 4294967296.0, 4294967295u)
LATHE_SATURATE(u64, uint64_t, 0, 18446744073709551616.0, 18446744073709551615u)

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
LATHE_FN float lathe_round_f16(float x) { return lathe_value_f16(lathe_bits_f16(x)); }
LATHE_FN float lathe_round_bf16(float x) { return lathe_value_bf16(lathe_bits_bf16(x)); }
)";
}

} // namespace lathe::render
