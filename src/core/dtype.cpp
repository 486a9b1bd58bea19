#include "lathe/dtype.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <ostream>

#include <fmt/core.h>

#include "lathe/error.hpp"

namespace lathe {
namespace {

constexpr const char* kNames[kAllDTypeCount] = {
    "bool", "i8",       "i16",        "i32",    "i64",        "u8",     "u16",   "u32",
    "u64",  "f16",      "bf16",       "f32",    "f64",        "i4",     "u4",    "i2",
    "u2",   "f8e4m3fn", "f8e4m3fnuz", "f8e5m2", "f8e5m2fnuz", "f4e2m1", "f8e8m0"};

DType float_of_size(int bytes) { return bytes <= 2 ? DType::F16 : bytes <= 4 ? DType::F32 : DType::F64; }

DType signed_of_size(int bytes) {
  return bytes <= 1 ? DType::I8 : bytes <= 2 ? DType::I16 : bytes <= 4 ? DType::I32 : DType::I64;
}

} // namespace

const char* to_string(DType dtype) { return kNames[static_cast<int>(dtype)]; }

DType parse_dtype(std::string_view name) {
  for (int i = 0; i < kAllDTypeCount; i++)
    if (name == kNames[i]) return static_cast<DType>(i);
  throw Error(
      ErrorKind::DType,
      fmt::format(
          "dtype '{}' is unknown, expected bool, i2 to i64, u2 to u64, f4e2m1, f8e4m3fn, f8e4m3fnuz, f8e5m2, "
          "f8e5m2fnuz, f8e8m0, f16, bf16, f32 or f64",
          name));
}

std::ostream& operator<<(std::ostream& out, DType dtype) { return out << to_string(dtype); }

DType promote(DType a, DType b) {
  if (a == b) return a;
  if (is_narrow(a) || is_narrow(b))
    throw Error(ErrorKind::DType,
                fmt::format("dtypes {} and {} have none in common, expected a cast of {} first", to_string(a),
                            to_string(b), to_string(is_narrow(a) ? a : b)));
  if (b == DType::Bool) return a;
  if (a == DType::Bool) return b;
  if (is_float(a) && is_float(b))
    return size_of(a) == size_of(b) ? DType::F32 : size_of(a) > size_of(b) ? a : b;
  if (is_float(b)) std::swap(a, b);
  if (is_float(a)) { // b is an integer: the float must hold twice its width
    const int needed = size_of(b) * 2;
    return needed <= size_of(a) ? a : float_of_size(needed);
  }
  if (is_signed(a) == is_signed(b)) return size_of(a) > size_of(b) ? a : b;
  if (is_unsigned(a)) std::swap(a, b); // now a is signed and b unsigned
  if (size_of(a) > size_of(b)) return a;
  return b == DType::U64 ? DType::F64 : signed_of_size(size_of(b) * 2);
}

float f16_to_f32(uint16_t bits) {
  const uint32_t sign = (bits & 0x8000u) << 16;
  const uint32_t exponent = (bits >> 10) & 31u, mantissa = bits & 0x3FFu;
  if (exponent == 31) return std::bit_cast<float>(sign | 0x7F800000u | mantissa << 13);
  if (exponent == 0) {
    const float magnitude = std::ldexp(static_cast<float>(mantissa), -24);
    return sign ? -magnitude : magnitude;
  }
  return std::bit_cast<float>(sign | (exponent + 112) << 23 | mantissa << 13);
}

uint16_t f32_to_f16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = (bits >> 16) & 0x8000u, magnitude = bits & 0x7FFFFFFFu;
  if (magnitude > 0x7F800000u) return static_cast<uint16_t>(sign | 0x7E00u | ((magnitude >> 13) & 0x3FFu));
  if (magnitude >= 0x477FF000u) return static_cast<uint16_t>(sign | 0x7C00u); // rounds to 65536 or more
  if (magnitude < 0x38800000u) { // below 2^-14: adding 0.5 makes the hardware round to a multiple of 2^-24
    const float rounded = std::bit_cast<float>(magnitude) + 0.5f;
    return static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(rounded) - 0x3F000000u));
  }
  const uint32_t rounded = magnitude + 0xFFFu + ((magnitude >> 13) & 1u);
  return static_cast<uint16_t>(sign | ((rounded - 0x38000000u) >> 13));
}

float bf16_to_f32(uint16_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }

uint16_t f32_to_bf16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7FFFFFFFu) > 0x7F800000u) return static_cast<uint16_t>(bits >> 16 | 0x40u);
  return static_cast<uint16_t>((bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16);
}

} // namespace lathe
