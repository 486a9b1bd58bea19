// Scalar: one value of a dtype, and the conversions between dtypes.
#include <bit>
#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>
#include <ostream>
#include <type_traits>

#include <fmt/core.h>

#include "core/narrow.hpp"
#include "lathe/dtype.hpp"
#include "lathe/error.hpp"

namespace lathe {
namespace {

/// Keeps the low bits of the dtype's width, sign-extended where it is signed.
int64_t wrap(DType dtype, int64_t v) {
  switch (dtype) {
  case DType::Bool: return v != 0;
  case DType::I8: return static_cast<int8_t>(v);
  case DType::I16: return static_cast<int16_t>(v);
  case DType::I32: return static_cast<int32_t>(v);
  case DType::U8: return static_cast<uint8_t>(v);
  case DType::U16: return static_cast<uint16_t>(v);
  case DType::U32: return static_cast<uint32_t>(v);
  case DType::I4:
  case DType::U4:
  case DType::I2:
  case DType::U2: return static_cast<int64_t>(narrow_value(dtype, static_cast<uint8_t>(v)));
  default: return v;
  }
}

/// `v` as a float; if no float equals `v`, the one of its two neighbours whose significand is odd. Rounding
/// the result to half precision then gives the same as rounding `v` itself.
float to_odd(double v) {
  const float near = static_cast<float>(v);
  const uint32_t bits = std::bit_cast<uint32_t>(near);
  if (std::isnan(v) || near == v || (bits & 1)) return near;
  return std::bit_cast<float>(std::fabs(near) > std::fabs(v) ? bits - 1 : bits + 1);
}

/// The same for an integer: one that an f64 may not hold becomes an odd multiple of 2^11.
template <class T> double to_odd(T v) {
  constexpr T low = 0x7FF, limit = T{1} << 53;
  const bool exact = (v < limit && (std::is_unsigned_v<T> || v > T{} - limit)) || (v & low) == 0;
  return static_cast<double>(exact ? v : static_cast<T>((v & ~low) | (low + 1)));
}

double round_to(DType dtype, double v) {
  if (dtype == DType::F64) return v;
  if (is_narrow(dtype)) return narrow_value(dtype, narrow_code(dtype, v));
  if (dtype == DType::F16) return f16_to_f32(f32_to_f16(to_odd(v)));
  if (dtype == DType::BF16) return bf16_to_f32(f32_to_bf16(to_odd(v)));
  return static_cast<float>(v);
}

/// An integer as a float, rounded once.
template <class T> double from_integer(DType dtype, T v) {
  if (is_half(dtype) || is_narrow(dtype)) return round_to(dtype, to_odd(v));
  return dtype == DType::F64 ? static_cast<double>(v) : static_cast<float>(v);
}

int64_t saturate(DType dtype, double v) {
  if (std::isnan(v)) return 0;
  if (dtype == DType::U64) {
    if (v <= 0) return 0;
    if (v >= 0x1p64) return -1;
    return static_cast<int64_t>(static_cast<uint64_t>(v));
  }
  const int bits = size_of(dtype) * 8 - (is_signed(dtype) ? 1 : 0);
  const double above = std::ldexp(1.0, bits), least = is_signed(dtype) ? -above : 0.0;
  if (v <= least) return is_signed(dtype) ? std::numeric_limits<int64_t>::min() >> (63 - bits) : 0;
  if (v >= above) return static_cast<int64_t>((uint64_t{1} << bits) - 1);
  return static_cast<int64_t>(v);
}

template <class T> T load(const void* p) {
  T v;
  std::memcpy(&v, p, sizeof v);
  return v;
}
template <class T> void store(void* p, T v) { std::memcpy(p, &v, sizeof v); }

} // namespace

Scalar Scalar::of_int(DType dtype, int64_t value) {
  Scalar s;
  s.dtype_ = dtype;
  if (!is_float(dtype)) {
    s.bits_ = static_cast<uint64_t>(wrap(dtype, value));
  } else {
    s.bits_ = std::bit_cast<uint64_t>(from_integer(dtype, value));
  }
  return s;
}

Scalar Scalar::of_float(DType dtype, double value) {
  Scalar s;
  s.dtype_ = dtype;
  if (dtype == DType::Bool)
    s.bits_ = value != 0;
  else if (is_float(dtype))
    s.bits_ = std::bit_cast<uint64_t>(round_to(dtype, value));
  else if (is_narrow(dtype))
    s.bits_ = static_cast<uint64_t>(wrap(dtype, saturate(DType::I32, value)));
  else
    s.bits_ = static_cast<uint64_t>(saturate(dtype, value));
  return s;
}

Scalar Scalar::from_memory(DType dtype, const void* p) {
  if (is_narrow(dtype)) {
    const double value = narrow_value(dtype, load<uint8_t>(p));
    if (!is_float(dtype)) return of_int(dtype, static_cast<int64_t>(value));
    Scalar s; // as it is: of_float() would saturate an infinity
    s.dtype_ = dtype;
    s.bits_ = std::bit_cast<uint64_t>(value);
    return s;
  }
  switch (dtype) {
  case DType::Bool: return of_int(dtype, load<uint8_t>(p) != 0);
  case DType::I8: return of_int(dtype, load<int8_t>(p));
  case DType::I16: return of_int(dtype, load<int16_t>(p));
  case DType::I32: return of_int(dtype, load<int32_t>(p));
  case DType::I64: return of_int(dtype, load<int64_t>(p));
  case DType::U8: return of_int(dtype, load<uint8_t>(p));
  case DType::U16: return of_int(dtype, load<uint16_t>(p));
  case DType::U32: return of_int(dtype, load<uint32_t>(p));
  case DType::U64: return of_int(dtype, static_cast<int64_t>(load<uint64_t>(p)));
  case DType::F16: return of_float(dtype, f16_to_f32(load<uint16_t>(p)));
  case DType::BF16: return of_float(dtype, bf16_to_f32(load<uint16_t>(p)));
  case DType::F32: return of_float(dtype, load<float>(p));
  case DType::F64: return of_float(dtype, load<double>(p));
  default: break; // the narrow ones, above
  }
  throw InternalError("Scalar::from_memory: bad dtype");
}

void Scalar::to_memory(void* p) const {
  if (is_narrow(dtype_)) return store(p, narrow_code(dtype_, as_float(), {.saturates = false}));
  switch (dtype_) {
  case DType::Bool:
  case DType::I8:
  case DType::U8: return store(p, static_cast<uint8_t>(bits_));
  case DType::I16:
  case DType::U16: return store(p, static_cast<uint16_t>(bits_));
  case DType::I32:
  case DType::U32: return store(p, static_cast<uint32_t>(bits_));
  case DType::I64:
  case DType::U64: return store(p, bits_);
  case DType::F16: return store(p, f32_to_f16(static_cast<float>(as_float())));
  case DType::BF16: return store(p, f32_to_bf16(static_cast<float>(as_float())));
  case DType::F32: return store(p, static_cast<float>(as_float()));
  case DType::F64: return store(p, as_float());
  default: break; // the narrow ones, above
  }
}

int64_t Scalar::as_int() const {
  return is_float(dtype_) ? saturate(DType::I64, std::bit_cast<double>(bits_)) : static_cast<int64_t>(bits_);
}

double Scalar::as_float() const {
  if (is_float(dtype_)) return std::bit_cast<double>(bits_);
  return dtype_ == DType::U64 ? static_cast<double>(bits_) : static_cast<double>(static_cast<int64_t>(bits_));
}

bool Scalar::as_bool() const { return is_float(dtype_) ? std::bit_cast<double>(bits_) != 0 : bits_ != 0; }

Scalar Scalar::cast(DType to) const {
  if (to == dtype_) return *this;
  if (is_float(dtype_)) return of_float(to, as_float());
  if (dtype_ == DType::U64 && is_float(to))
    return of_float(to, from_integer(to, bits_));
  return of_int(to, static_cast<int64_t>(bits_));
}

std::string to_string(const Scalar& s) {
  if (is_narrow(s.dtype()) && is_float(s.dtype())) return fmt::format("{}", static_cast<float>(s.as_float()));
  switch (s.dtype()) {
  case DType::F64: return fmt::format("{}", s.as_float());
  case DType::F32:
  case DType::F16:
  case DType::BF16: return fmt::format("{}", static_cast<float>(s.as_float()));
  case DType::U64: return fmt::format("{}", s.bits());
  default: return fmt::format("{}", s.as_int());
  }
}

Scalar parse_scalar(DType dtype, std::string_view text) {
  const char *first = text.data(), *last = first + text.size();
  auto fail = [&](const char* expected) {
    throw Error(ErrorKind::Syntax,
                fmt::format("scalar '{}' is no {}, expected {}", text, to_string(dtype), expected));
  };
  if (dtype == DType::Bool) {
    if (text == "1" || text == "true") return Scalar::of_int(dtype, 1);
    if (text == "0" || text == "false") return Scalar::of_int(dtype, 0);
    fail("0, 1, false or true");
  }
  if (is_float(dtype)) {
    double v = 0;
    std::from_chars_result r{};
    if (dtype == DType::F64) {
      r = std::from_chars(first, last, v);
    } else { // read as f32 directly: by way of f64 it would be rounded twice
      float f = 0;
      r = std::from_chars(first, last, f);
      v = f;
    }
    if (r.ec != std::errc{} || r.ptr != last) fail("a number, inf or nan");
    if (is_narrow(dtype)) { // an infinity stays one where the dtype has it
      const uint8_t code = narrow_code(dtype, v, {.saturates = false});
      return Scalar::from_memory(dtype, &code);
    }
    return Scalar::of_float(dtype, v);
  }
  if (dtype == DType::U64) {
    uint64_t v = 0;
    auto r = std::from_chars(first, last, v);
    if (r.ec != std::errc{} || r.ptr != last) fail("an integer in range");
    return Scalar::of_int(dtype, static_cast<int64_t>(v));
  }
  int64_t v = 0;
  auto r = std::from_chars(first, last, v);
  if (r.ec != std::errc{} || r.ptr != last || wrap(dtype, v) != v) fail("an integer in range");
  return Scalar::of_int(dtype, v);
}

std::ostream& operator<<(std::ostream& out, const Scalar& s) { return out << to_string(s); }

} // namespace lathe
