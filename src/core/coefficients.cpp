#include "core/coefficients.hpp"

#include <cmath>
#include <vector>

#include <fmt/format.h>

namespace lathe {
namespace {

using namespace coefficients;

struct Row {
  const char* name;
  const char* item; // what one of them is: the factor of a power ("c"), or a part of a longer number
                    // ("part"); empty: there is one
  DType dtype;
  std::span<const double> values;
};
constexpr Row kRows[] = {
    {"ln2", "part", DType::F32, kLn2},
    {"log2_e", "part", DType::F32, kLog2E},
    {"log10_e", "part", DType::F32, kLog10E},
    {"log10_2", "part", DType::F32, kLog10Of2},
    {"half_pi", "part", DType::F32, kHalfPi},
    {"two_over_pi", "", DType::F32, kTwoOverPi},
    {"exp_shift", "", DType::F32, kExpShift},
    {"exp", "c", DType::F32, kExp},
    {"exp2", "c", DType::F32, kExp2},
    {"log", "c", DType::F32, kLog},
    {"sin", "c", DType::F32, kSin},
    {"cos", "c", DType::F32, kCos},
    {"erf", "c", DType::F32, kErfSmall},
    {"erfc_exponent", "c", DType::F32, kErfExponent},
    {"tanh", "c", DType::F32, kTanh},
    {"atan", "c", DType::F32, kAtan32},
    {"asin", "c", DType::F32, kAsin32},
    {"atanh", "c", DType::F32, kAtanh32},
    {"log2_e_rest64", "", DType::F64, kLog2ERest64},
    {"erfc64", "c", DType::F64, kErfc64},
    {"atan64", "c", DType::F64, kAtan64},
    {"asin64", "c", DType::F64, kAsin64},
    {"atanh64", "c", DType::F64, kAtanh64},
};

double rounded(DType dtype, double value) {
  return dtype == DType::F32 ? static_cast<double>(static_cast<float>(value)) : value;
}

/// Whether the number is read at a glance: a small multiple of a power of two.
bool is_plain(double value) {
  int exponent;
  const double mantissa = std::frexp(value, &exponent);
  return mantissa * 256 == std::floor(mantissa * 256);
}

std::vector<NamedCoefficient> make_named() {
  std::vector<NamedCoefficient> named;
  for (const Row& row : kRows)
    for (size_t k = 0; k < row.values.size(); ++k) {
      const double value = rounded(row.dtype, row.values[k]);
      if (!is_plain(value))
        named.push_back({*row.item ? fmt::format("lathe_{}_{}{}", row.name, row.item, k)
                                   : fmt::format("lathe_{}", row.name),
                         row.dtype, value});
    }
  return named;
}

} // namespace

std::span<const NamedCoefficient> named_coefficients() {
  static const std::vector<NamedCoefficient> named = make_named();
  return named;
}

std::optional<std::string> coefficient_name(DType dtype, double value) {
  for (const NamedCoefficient& c : named_coefficients()) {
    if (c.dtype != dtype) continue;
    if (c.value == value) return c.name;
    if (c.value == -value) return "-" + c.name;
  }
  return {};
}

} // namespace lathe
