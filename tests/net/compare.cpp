// Compares what lathe gave with the oracle's cells.
#include <cstring>

#include "net/program.hpp"
#include "net/rows.hpp"

namespace lathe::net {
namespace {

/// The element at `p`, read by the definition of its format.
Real element(DType d, const unsigned char* p) {
  uint64_t bits = 0;
  std::memcpy(&bits, p, static_cast<size_t>(size_of(d)));
  if (!is_float(d)) {
    if (!is_signed(d)) return static_cast<Real>(bits);
    const int unused = 64 - dtype_bits(d);
    return static_cast<Real>(static_cast<int64_t>(bits << unused) >> unused);
  }
  const Format f = format_of(d);
  const int exponent_bits = dtype_bits(d) - f.digits;
  const uint64_t fraction = bits & ((uint64_t{1} << (f.digits - 1)) - 1);
  const uint64_t exponent = (bits >> (f.digits - 1)) & ((uint64_t{1} << exponent_bits) - 1);
  const bool negative = bits >> (dtype_bits(d) - 1) & 1;
  Real v;
  if (exponent == (uint64_t{1} << exponent_bits) - 1)
    v = fraction ? std::nanl("") : kInfinity;
  else if (exponent == 0)
    v = std::ldexp(static_cast<Real>(fraction), f.least - f.digits + 1);
  else
    v = std::ldexp(static_cast<Real>(fraction | uint64_t{1} << (f.digits - 1)),
                   static_cast<int>(exponent) - f.most - f.digits + 1);
  return negative ? -v : v;
}

bool fits(DType d, Real got, Cell want) {
  if (std::isnan(want.v)) return std::isnan(got);
  if (std::isnan(got)) return false;
  if (std::isinf(want.v) || std::isinf(got)) return got == want.v;
  if (want.e == 0 && want.v == 0 && is_float(d)) return got == 0 && std::signbit(got) == std::signbit(want.v);
  if (want.exact()) return got == want.v;
  return std::fabs(got - want.v) <= want.e * (1 + 1e-6L);
}

} // namespace

std::optional<Difference> compare(const Program& program, const std::vector<Array>& reference,
                                  const std::vector<Result>& got, Counts* counts) {
  for (size_t k = 0; k < got.size(); ++k) {
    if (got[k].bytes.empty()) continue;
    const Array& want = reference[static_cast<size_t>(program.outputs[k])];
    for (size_t i = 0; i < want.at.size(); ++i) {
      const Cell cell = want.at[i];
      if (counts) {
        ++counts->elements;
        counts->undecided += !cell.decided();
      }
      if (!cell.decided()) continue;
      const Real v = element(want.dtype, &got[k].bytes[i * static_cast<size_t>(size_of(want.dtype))]);
      if (fits(want.dtype, v, cell)) continue;
      return Difference{static_cast<int>(k), static_cast<int64_t>(i),
                        fmt::format("output {} ({}{}, {}), element {}: {}, expected {} within {}", k,
                                    to_string(want.dtype), shape_text(want.shape),
                                    program.steps[static_cast<size_t>(program.outputs[k])].function->name, i,
                                    static_cast<double>(v), static_cast<double>(cell.v),
                                    static_cast<double>(cell.e))};
    }
  }
  return {};
}

} // namespace lathe::net
