// The narrow dtypes on the host: every code, and numbers around every place where rounding changes, against a
// search among the values that the format's definition lists.
#include "core/narrow.hpp"

#include <doctest/doctest.h>

#include "lathe/error.hpp"
#include "support/narrow_formats.hpp"

using namespace lathe;
using namespace lathe::test;

namespace {

bool same(double a, double b) {
  return std::isnan(a) || std::isnan(b) ? std::isnan(a) && std::isnan(b)
                                        : a == b && std::signbit(a) == std::signbit(b);
}

} // namespace

TEST_CASE("every code has the value of its definition") {
  for (int d = kDTypeCount; d < kAllDTypeCount; ++d) {
    const auto dtype = static_cast<DType>(d);
    CAPTURE(to_string(dtype));
    const std::vector<double> values = values_by_definition(dtype);
    CHECK(values.size() == size_t{1} << bits_of(dtype));
    for (size_t code = 0; code < values.size(); ++code) {
      CAPTURE(code);
      CHECK(same(narrow_value(dtype, static_cast<uint8_t>(code)), values[code]));
      const auto byte = static_cast<uint8_t>(code);
      const Scalar s = Scalar::from_memory(dtype, &byte);
      CHECK(same(s.as_float(), values[code]));
      if (std::isnan(values[code])) continue;
      uint8_t back = 0;
      s.to_memory(&back);
      CHECK(back == byte);
      CHECK(parse_scalar(dtype, to_string(s)) == s);
    }
  }
}

TEST_CASE("numbers become the nearest value") {
  for (const DType dtype : kNarrowFloats) {
    CAPTURE(to_string(dtype));
    const NearestCode nearest(dtype);
    for (const double x : probing_numbers(dtype))
      for (const bool saturates : {true, false})
        for (const auto rounding :
             {NarrowCast::Rounding::Nearest, NarrowCast::Rounding::Up, NarrowCast::Rounding::Down}) {
          const NarrowCast how{saturates, rounding};
          if (static_cast<int>(narrow_code(dtype, x, how)) != nearest(x, how)) {
            CAPTURE(x);
            CAPTURE(saturates);
            CHECK(static_cast<int>(narrow_code(dtype, x, how)) == nearest(x, how));
          }
        }
  }
}

TEST_CASE("integers keep their low bits") {
  for (int v = -300; v < 300; ++v) {
    CHECK(Scalar::of_int(DType::U4, v).as_int() == (v & 15));
    CHECK(Scalar::of_int(DType::U2, v).as_int() == (v & 3));
    CHECK(Scalar::of_int(DType::I4, v).as_int() == ((v + 8) & 15) - 8);
    CHECK(Scalar::of_int(DType::I2, v).as_int() == ((v + 2) & 3) - 2);
    CHECK(Scalar::of_float(DType::I4, v + (v < 0 ? -0.75 : 0.75)).as_int() == ((v + 8) & 15) - 8);
  }
}

TEST_CASE("an integer that f64 does not hold is rounded once") {
  // 3 * 2^60 lies halfway between 2^61 and 2^62 and goes up.
  CHECK(Scalar::of_int(DType::F8E8M0, (int64_t{3} << 60) - 1).as_float() == 0x1p61);
  CHECK(Scalar::of_int(DType::F8E8M0, int64_t{3} << 60).as_float() == 0x1p62);
}

TEST_CASE("names, sizes and kinds") {
  for (int d = 0; d < kAllDTypeCount; ++d) {
    const auto dtype = static_cast<DType>(d);
    CHECK(parse_dtype(to_string(dtype)) == dtype);
    CHECK(is_narrow(dtype) == (d >= kDTypeCount));
    if (!is_narrow(dtype)) CHECK(bits_of(dtype) == 8 * size_of(dtype));
    CHECK(bytes_of(dtype, 0) == 0);
    CHECK(bytes_of(dtype, 9) == (9 * bits_of(dtype) + 7) / 8);
  }
  CHECK(is_signed(DType::I4));
  CHECK(is_unsigned(DType::U2));
  CHECK(is_float(DType::F4E2M1));
  CHECK(is_float(DType::F8E8M0));
  CHECK(!is_float(DType::I2));
  CHECK(promote(DType::I4, DType::I4) == DType::I4);
  CHECK_THROWS_AS(promote(DType::I4, DType::I8), Error);
  CHECK_THROWS_AS(promote(DType::F32, DType::F8E5M2), Error);
}
