// Values of a float dtype at which functions go wrong: zeros, the ends of the formats, ties, the joints of pieces, and
// random bits.
#pragma once
#include <random>
#include <vector>

#include "support/device_run.hpp"

namespace lathe::test {

/// Where functions are joined, overflow, underflow, reduce their argument in another way, or have ties.
inline const std::vector<double>& joints() {
  static const std::vector<double> all = {
      0, 1, 2, 3, 6, 0.5, 1.5, 2.5, 3.5, 4.5, 0.01, 0.1, 0.25, 0.3, 0.35, 0.347, 0.6, 0.625, 0.95, 0.7071067811865476, 1.4142135623730951,
      0.6931471805599453, 2.718281828459045, 10, 12, 16, 17, 19, 20, 30, 36, 37, 40, 50, 64, 80, 85, 87.3, 88, 88.7, 88.72, 88.73, 89,
      89.4, 90, 100, 103.2, 103.9, 104, 106, 126, 127, 128, 149, 150, 200, 700, 708.3, 709, 709.78, 709.79, 710, 710.4, 710.5, 744, 745,
      745.2, 746, 750, 1022, 1023, 1024, 1074, 1075, 1500, 4.89, 6.5, 9.2, 10.05, 11.09, 13.5, 27, 3.1415926535897931,
      1.5707963267948966, 0.78539816339744828, 4.7123889803846899, 6.2831853071795862, 205887.41614566068, 1e5, 1e6, 1e7, 1e8, 1e10,
      1e15, 1e16, 1e17, 1e20, 1e22, 1e30, 1e38, 1e100, 1e154, 1e200, 1e300, 4194303.5, 4194304.5, 8388607.5, 8388608, 16777215, 16777216,
      4503599627370495.5, 4503599627370496, 9007199254740991, 9007199254740992, 2147483648, 4294967296, 9.2233720368547758e18,
      1.8446744073709552e19, 0x1p-10, 0x1p-12, 0x1p-14, 0x1p-20, 0x1p-24, 0x1p-25, 0x1p-26, 0x1p-53, 0x1p-60, 0x1p-63, 0x1p-64, 0x1p-100,
      0x1p-126, 0x1p-127, 0x1p-133, 0x1p-149, 0x1p-511, 0x1p-512, 0x1p-1022, 0x1p-1023, 0x1p-1074, 0x1p63, 0x1p64, 0x1p127, 0x1p511,
      0x1p512, 0x1p1023, 65504, 65519, 65520, 3.4028234663852886e38, 1.7976931348623157e308, 3.3895313892515355e38};
  return all;
}

/// All of 16 bits; else each joint of both signs with its neighbours, the formats' ends, infinities, NaN, and random bits up
/// to `count`.
inline Elements extreme_values(DType dtype, size_t count, uint64_t seed) {
  Elements out(dtype, count);
  std::vector<Scalar> values;
  for (double v : {static_cast<double>(INFINITY), static_cast<double>(NAN)})
    for (double sign : {1.0, -1.0}) values.push_back(Scalar::of_float(dtype, sign * v));
  for (double v : joints())
    for (double sign : {1.0, -1.0}) {
      Elements one(dtype, 1);
      one.put(0, Scalar::of_float(dtype, sign * v));
      uint64_t bits = 0;
      std::memcpy(&bits, one.at(0), size_of(dtype));
      for (int step : {0, 1, -1, 2, -2, 17, -17}) {
        const uint64_t moved = bits + static_cast<uint64_t>(static_cast<int64_t>(step));
        std::memcpy(one.at(0), &moved, size_of(dtype));
        values.push_back(one.get(0));
      }
    }
  std::mt19937_64 random(seed);
  for (size_t i = 0; i < count; ++i) {
    const uint64_t bits = size_of(dtype) == 2 ? i : random();
    if (size_of(dtype) > 2 && i < values.size())
      out.put(i, values[i]);
    else
      std::memcpy(out.at(i), &bits, size_of(dtype));
    // Half of the random ones of an everyday size.
    if (size_of(dtype) > 2 && i >= values.size() && i % 2)
      out.put(i, Scalar::of_float(dtype, std::ldexp(static_cast<double>(static_cast<int64_t>(random())), -63 + static_cast<int>(random() % 8))));
  }
  return out;
}

/// How far `got` is from the exact result, in units of the last place of the result; 0 for the rounded one. Past the largest
/// number the unit stays. A zero of the wrong sign is only counted with `signs`.
inline double ulps_off(DType dtype, long double got, long double exact, bool signs) {
  const long double want = rounded_to(dtype, exact);
  if (identical(got, want) || (!signs && got == want)) return 0;
  if (std::isnan(got) || std::isnan(exact)) return HUGE_VAL;
  const int digits = dtype == DType::F16 ? 11 : dtype == DType::BF16 ? 8 : dtype == DType::F32 ? 24 : 53;
  const int most = dtype == DType::F16 ? 15 : dtype == DType::F64 ? 1023 : 127;
  if (got == 0 && want == 0) return HUGE_VAL; // the sign
  const long double limit = std::ldexp(1.0L, most + 1);
  const auto bounded = [&](long double v) { return std::fabs(v) > limit ? std::copysign(limit, v) : v; };
  const long double b = bounded(exact);
  const int unit = std::max(b == 0 ? 1 - most : std::min(std::ilogb(b), most), 1 - most) - (digits - 1);
  return static_cast<double>(std::fabs(bounded(got) - b) / std::ldexp(1.0L, unit));
}

} // namespace lathe::test
