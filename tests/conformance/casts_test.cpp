// Casts between all pairs of dtypes, on every device, against conversions in exact arithmetic: all values of 8 and 16 bits,
// and of the wider dtypes those around every halfway case of every narrower float, the integers' bounds, and random bits.
#include <doctest/doctest.h>

#include <random>

#include "support/device_run.hpp"

using namespace lathe;
using namespace lathe::test;

namespace {

constexpr size_t kCount = 1 << 16;
constexpr uint64_t kSeed = 20261125;

constexpr DType kAll[] = {DType::Bool, DType::I8,  DType::I16, DType::I32, DType::I64,  DType::U8, DType::U16,
                          DType::U32,  DType::U64, DType::F16, DType::BF16, DType::F32, DType::F64};

/// Truncated, saturated; NaN is 0.
Scalar truncated(DType to, long double v) {
  if (std::isnan(v)) return Scalar::zero(to);
  const int bits = 8 * size_of(to) - is_signed(to);
  const long double above = std::ldexp(1.0L, bits), least = is_signed(to) ? -above : 0.0L;
  const long double kept = std::min(std::max(std::trunc(v), least), above - 1);
  return Scalar::of_int(to, to == DType::U64 ? static_cast<int64_t>(static_cast<uint64_t>(kept))
                                             : static_cast<int64_t>(kept));
}

bool is_right(const Elements& from, const Elements& to, size_t i) {
  const long double v = from.exact(i);
  if (to.dtype == DType::Bool) return to.exact(i) == static_cast<long double>(v != 0);
  if (is_float(to.dtype)) return identical(to.exact(i), rounded_to(to.dtype, v));
  if (is_float(from.dtype)) return to.get(i) == truncated(to.dtype, v);
  Elements low(to.dtype, 1); // the low bits
  const int64_t bits = from.get(i).as_int();
  std::memcpy(low.at(0), &bits, size_of(to.dtype));
  return to.get(i) == low.get(0);
}

/// A power of two between, times a number that lies halfway between two of `digits` digits, and next to it.
long double near_halfway(std::mt19937_64& random, int lowest, int highest) {
  constexpr int kDigits[] = {8, 11, 24, 53};
  const int digits = kDigits[random() % 4];
  const uint64_t significand = (random() >> (64 - digits)) | (uint64_t{1} << (digits - 1));
  long double v = static_cast<long double>(significand) + (random() % 4 ? 0.5L : 0.0L);
  const int extra = static_cast<int>(random() % 64); // what breaks the tie, from a digit below it to one too low to hold
  const long double step = std::ldexp(1.0L, -2 - extra);
  if (random() % 3) v += random() % 2 ? step : -step;
  const int exponent = lowest + static_cast<int>(random() % static_cast<uint64_t>(highest - lowest + 1));
  v = std::ldexp(v, exponent - digits + 1);
  return random() % 2 ? v : -v;
}

void put_bits(Elements& e, size_t i, uint64_t bits) { std::memcpy(e.at(i), &bits, size_of(e.dtype)); }

Elements values_of(DType dtype) {
  Elements out(dtype, kCount);
  std::mt19937_64 random(kSeed + static_cast<uint64_t>(dtype));
  for (size_t i = 0; i < kCount; ++i) {
    if (dtype == DType::Bool)
      put_bits(out, i, i & 1);
    else if (size_of(dtype) <= 2)
      put_bits(out, i, i);
    else if (i % 4 == 3)
      put_bits(out, i, random());
    else if (is_float(dtype)) {
      constexpr int kRanges[][2] = {{-30, 20}, {-150, -120}, {-1, 66}, {120, 130}};
      const auto& range = kRanges[random() % 4];
      long double v = near_halfway(random, range[0], range[1]);
      if (i % 64 == 0) v = std::ldexp(1.0L, static_cast<int>(random() % 66)) * (random() % 2 ? 1 : -1);
      if (i % 64 == 1) v = static_cast<long double>(static_cast<int64_t>(random() % 512) - 256) / 2;
      out.put(i, Scalar::of_float(dtype, static_cast<double>(v)));
    } else {
      const long double v = near_halfway(random, 4, is_signed(dtype) ? 8 * size_of(dtype) - 2 : 8 * size_of(dtype) - 1);
      const uint64_t size = static_cast<uint64_t>(std::fabs(v));
      put_bits(out, i, is_signed(dtype) && v < 0 ? ~size + 1 : size);
    }
  }
  const double special[] = {0.0, -0.0, INFINITY, -INFINITY, NAN, 65504, 65519.999999, 65520, 65535.9, 3.4028235677973366e38,
                            0x1p-24, 0x1p-25, 0x1.0000001p-25, -0x1p-25, 0x1p-133, 0x1p-134, 0x1.0000001p-134, 0x1p-149,
                            0x1p-150, 0x1.00000001p-150, 0x1p-1074, 0x1.fffffffffffffp1023, 0x1.ffp127, 0x1.feffffffp127};
  if (is_float(dtype) && size_of(dtype) >= 4)
    for (size_t i = 0; i < std::size(special); ++i) out.put(i * 3, Scalar::of_float(dtype, special[i]));
  if (is_integer(dtype) && size_of(dtype) >= 4)
    for (size_t i = 0; i < 8; ++i) put_bits(out, i, i < 4 ? i - 2 : (uint64_t{1} << (8 * size_of(dtype) - 1)) + i - 6);
  return out;
}

std::string pair_name(DType from, DType to) { return std::string(to_string(from)) + "_" + to_string(to); }

/// One program for all pairs, as some compilers take long to start.
void check_device(const std::string& device) {
  NamedTensors program;
  Memory in;
  for (DType from : kAll) {
    const std::string name = std::string("in_") + to_string(from);
    in[name] = values_of(from);
    const Tensor x = Tensor::input(name, {Expr(static_cast<int64_t>(kCount))}, from);
    for (DType to : kAll)
      if (to != from) program.emplace(pair_name(from, to), x.cast(to));
  }
  const Memory out = run_on(device, program, in);
  for (DType from : kAll)
    for (DType to : kAll) {
      if (to == from) continue;
      const Elements &given = in.at(std::string("in_") + to_string(from)), &got = out.at(pair_name(from, to));
      size_t wrong = 0, first = 0;
      for (size_t i = kCount; i-- > 0;)
        if (!is_right(given, got, i)) ++wrong, first = i;
      CHECK_MESSAGE(wrong == 0, device, ": ", std::string(to_string(from)), " to ", std::string(to_string(to)), ", ", wrong,
                    " values, such as ", static_cast<double>(given.exact(first)), " (", to_string(given.get(first)),
                    "): ", to_string(got.get(first)));
    }
}

} // namespace

TEST_CASE("casts round once, truncate, saturate and wrap, on every device") {
  for (const std::string& device : tested_devices()) check_device(device);
}

TEST_CASE("casts that would round to a tie first") {
  const struct {
    double in;
    DType to;
    float out;
  } cases[] = {{1 + 0x1p-11 + 0x1p-40, DType::F16, 1 + 0x1p-10f}, {1 + 0x1p-11 - 0x1p-40, DType::F16, 1},
               {1 + 0x1p-8 + 0x1p-40, DType::BF16, 1 + 0x1p-7f},  {1 + 0x1p-8 - 0x1p-40, DType::BF16, 1},
               {-1 - 0x1p-8 - 0x1p-40, DType::BF16, -1 - 0x1p-7f}, {65520 - 0x1p-20, DType::F16, 65504}};
  for (const auto& c : cases) {
    CAPTURE(c.in);
    for (const std::string& device : tested_devices()) {
      CAPTURE(device);
      Memory in{{"x", Elements(DType::F64, 16)}};
      for (size_t i = 0; i < 16; ++i) in["x"].put(i, Scalar::of_float(DType::F64, c.in));
      const Tensor x = Tensor::input("x", {16}, DType::F64);
      CHECK(run_on(device, {{"y", x.cast(c.to)}}, in).at("y").get(3).as_float() == c.out);
    }
    CHECK(Scalar::of_float(c.to, c.in).as_float() == c.out);
  }
  // Past an f32's digits: a float between would be 2^24 + 2^16, a tie.
  CHECK(Scalar::of_int(DType::BF16, (1 << 24) + (1 << 16) + 1).as_float() == 16777216 + 131072);
  CHECK(Scalar::of_int(DType::BF16, (int64_t{1} << 60) + (int64_t{1} << 52) + 1).as_float() == 0x1.02p60);
}
