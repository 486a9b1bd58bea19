// Element types and single values of them.
//
// f16 and bf16 are storage types: they are computed in f32 and rounded after every op.
//
// The narrow dtypes, integers of 4 and 2 bits and floats of 8 and 4, are only stored. Tensors of them are cast,
// moved, indexed, chosen by where() and compared; any other function is Error(DType) until they are cast.
// Elements of 4 and 2 bits are packed in memory: two or four to a byte, low bits first, the rest of the last
// byte 0.
#pragma once
#include <cstdint>
#include <iosfwd>
#include <string>
#include <string_view>
#include <type_traits>

namespace lathe {

enum class DType : uint8_t {
  Bool, I8, I16, I32, I64, U8, U16, U32, U64, F16, BF16, F32, F64,
  I4, U4, I2, U2,
  // by their bits of exponent and mantissa; fn: no infinity; uz: no -0
  F8E4M3FN, F8E4M3FNUZ, F8E5M2, F8E5M2FNUZ, F4E2M1, F8E8M0
};
inline constexpr int kDTypeCount = 13;        // the dtypes that programs compute with: all before the narrow ones
inline constexpr int kAllDTypeCount = 23;

const char* to_string(DType dtype);           // "bool", "i8" ... "f64", "i4" ... "f8e8m0"
DType parse_dtype(std::string_view name);     // throws Error(DType) for an unknown name
std::ostream& operator<<(std::ostream&, DType);

constexpr bool is_narrow(DType d) { return d >= DType::I4; }
constexpr int size_of(DType d) {              // bytes of one element by itself
  constexpr int sizes[kDTypeCount] = {1, 1, 2, 4, 8, 1, 2, 4, 8, 2, 2, 4, 8};
  return is_narrow(d) ? 1 : sizes[static_cast<int>(d)];
}
constexpr int bits_of(DType d) {
  constexpr int bits[kAllDTypeCount - kDTypeCount] = {4, 4, 2, 2, 8, 8, 8, 8, 4, 8};
  return is_narrow(d) ? bits[static_cast<int>(d) - kDTypeCount] : 8 * size_of(d);
}
constexpr int64_t bytes_of(DType d, int64_t count) {  // of so many elements in memory, packed
  if (!is_narrow(d)) return count * size_of(d);
  const int per_byte = 8 / bits_of(d);
  return count / per_byte + (count % per_byte != 0);
}
constexpr bool is_float(DType d) { return (d >= DType::F16 && d <= DType::F64) || d >= DType::F8E4M3FN; }
constexpr bool is_half(DType d) { return d == DType::F16 || d == DType::BF16; }
constexpr bool is_signed(DType d) {
  return (d >= DType::I8 && d <= DType::I64) || d == DType::I4 || d == DType::I2;
}
constexpr bool is_unsigned(DType d) {
  return (d >= DType::U8 && d <= DType::U64) || d == DType::U4 || d == DType::U2;
}
constexpr bool is_integer(DType d) { return is_signed(d) || is_unsigned(d); }

/// NumPy's promotion of two dtypes. bf16 with f16 gives f32; bf16 with an integer follows f16's row; an i64 or
/// u64 with f16 or f32 gives f64 as in NumPy; u64 with a signed integer gives f64. Error(DType) for a narrow
/// dtype with another.
DType promote(DType a, DType b);

/// bf16 and f16 <-> f32, round to nearest even.
float f16_to_f32(uint16_t bits);
uint16_t f32_to_f16(float value);
float bf16_to_f32(uint16_t bits);
uint16_t f32_to_bf16(float value);

/// How a cast to a narrow float treats numbers that the dtype does not hold. Integers and f4e2m1 have no choice.
struct NarrowCast {
  enum class Rounding : uint8_t { Nearest, Up, Down };
  bool saturates = true;                  // beyond the largest number: that number; else infinity or NaN
  Rounding rounding = Rounding::Nearest;  // of f8e8m0, ties going up; the others take ties to even
};

/// Storage-only C++ types for half precision, so that data of these dtypes can be passed in and out.
struct Half { uint16_t bits; };
struct BFloat16 { uint16_t bits; };

template <class T> constexpr DType dtype_of() {
  if constexpr (std::is_same_v<T, bool>) return DType::Bool;
  else if constexpr (std::is_same_v<T, Half>) return DType::F16;
  else if constexpr (std::is_same_v<T, BFloat16>) return DType::BF16;
  else if constexpr (std::is_same_v<T, float>) return DType::F32;
  else if constexpr (std::is_same_v<T, double>) return DType::F64;
  else {
    static_assert(std::is_integral_v<T>, "lathe has no dtype for this C++ type");
    constexpr bool s = std::is_signed_v<T>;
    if constexpr (sizeof(T) == 1) return s ? DType::I8 : DType::U8;
    else if constexpr (sizeof(T) == 2) return s ? DType::I16 : DType::U16;
    else if constexpr (sizeof(T) == 4) return s ? DType::I32 : DType::U32;
    else return s ? DType::I64 : DType::U64;
  }
}

/// One value of a dtype. Integers and bool are held in `i` (u64 by its bits), floats in `f`, already rounded to
/// the dtype. In memory a narrow value by itself is the low bits of a byte. Equality and hashing are by bits, so
/// that -0 and +0 differ and a NaN equals itself.
class Scalar {
 public:
  Scalar() = default;
  static Scalar of_int(DType dtype, int64_t value);    // wraps to the dtype; converts if the dtype is a float
  static Scalar of_float(DType dtype, double value);   // rounds to the dtype; saturates if it is an integer
  static Scalar zero(DType dtype) { return of_int(dtype, 0); }
  static Scalar from_memory(DType dtype, const void* element);
  void to_memory(void* element) const;

  DType dtype() const { return dtype_; }
  int64_t as_int() const;      // floats truncate and saturate, NaN gives 0
  double as_float() const;
  bool as_bool() const;
  Scalar cast(DType to) const;  // as Op::Cast
  uint64_t bits() const { return bits_; }
  bool operator==(const Scalar& o) const { return dtype_ == o.dtype_ && bits_ == o.bits_; }

 private:
  DType dtype_ = DType::F32;
  uint64_t bits_ = 0;  // the int64 value for integers and bool; the bits of the double for floats
};
std::string to_string(const Scalar&);  // shortest text that parses back: "1", "-0.5", "nan", "inf"
Scalar parse_scalar(DType dtype, std::string_view text);
std::ostream& operator<<(std::ostream&, const Scalar&);

}  // namespace lathe
