// The oracle's values: plain row-major arrays of cells. A cell is a value beside a bound of how far a right
// program may be from it.
//
// Nothing of src/ is used here: formats, rounding, promotion and casts are written anew from their
// definitions, so that a fault of lathe's is not repeated by what judges it.
//
//   e == 0            the value is exact, also the sign of a zero
//   e == kSignless    exact, but for the sign of a zero; an infinity that is an overflow
//   e == infinity     undecided: rounding decides what comes out, and nothing is compared
//
// Values of all dtypes are held in a long double: 64 bits of significand hold every i64, u64 and f64.
#pragma once
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

#include "lathe/dtype.hpp"

namespace lathe::net {

using Real = long double;
using Wide = __int128; // holds the product of any two integers of 64 bits
using Sizes = std::vector<int64_t>;

inline constexpr Real kSignless = 1e-4940L;
inline constexpr Real kInfinity = std::numeric_limits<Real>::infinity();

struct Cell {
  Real v = 0, e = 0;
  bool exact() const { return e <= kSignless; }
  bool decided() const { return e < kInfinity; }
};
inline Cell undecided() { return {0, kInfinity}; }

struct Array {
  DType dtype = DType::F32;
  Sizes shape;
  std::vector<Cell> at;
};

/// A program that is not one: shapes or dtypes that do not fit. The shrinker tries such programs.
struct Invalid : std::runtime_error {
  using std::runtime_error::runtime_error;
};
inline void require(bool condition, const char* what) {
  if (!condition) throw Invalid(what);
}

// ---- formats ----
struct Format {
  int digits, least, most; // significand bits, exponents of the smallest and the largest normal numbers
};
Format format_of(DType dtype);
Real largest(DType dtype);              // finite
Real half_ulp(DType dtype, Real value); // half of the distance between neighbours at the value
Real round_to(DType dtype, Real value); // to nearest, ties to even, infinity where it overflows
/// What an operation that rounds once leaves of a result: in range, a value within its bound and half an ulp.
Cell rounded(DType dtype, Cell result);
/// Further rounding errors of `ulps` units in the last place.
Cell loosened(DType dtype, Cell result, Real ulps);
Cell wrapped(DType dtype, Wide value); // an integer, cut to its width
int dtype_bits(DType dtype);

// ---- dtypes ----
DType promoted(DType a, DType b); // NumPy's table, and the header's for bf16
DType real_dtype(DType dtype);    // what a function of real numbers gives
inline DType wide_dtype(DType dtype) { return is_half(dtype) ? DType::F32 : dtype; }
DType sum_dtype(DType dtype);
Cell cast_cell(DType to, DType from, Cell c);
Array cast_array(DType to, const Array& a);

// ---- shapes ----
int64_t count_of(const Sizes& shape);
Sizes broadcast(const Sizes& a, const Sizes& b);
int axis_of(int64_t axis, size_t rank);
/// Row-major position of an index.
int64_t flat_of(const Sizes& shape, const Sizes& index);
/// Calls f with each index of the shape in row-major order.
template <class F> void for_each_index(const Sizes& shape, F&& f) {
  Sizes index(shape.size(), 0);
  const int64_t n = count_of(shape);
  for (int64_t k = 0; k < n; ++k) {
    f(index);
    for (size_t i = shape.size(); i-- > 0;) {
      if (++index[i] < shape[i]) break;
      index[i] = 0;
    }
  }
}
/// An array of the shape, each cell from the source's element that `from` names, or `fill` where it says -1.
Array moved(const Array& a, const Sizes& shape, const std::function<int64_t(const Sizes&)>& from,
            Cell fill = {});
Array broadcast_array(const Array& a, const Sizes& shape);
Array mapped(const Array& a, DType dtype, const std::function<Cell(Cell)>& f);

// ---- arithmetic of cells in a float dtype, each operation rounded once ----
Cell add(DType d, Cell a, Cell b);
Cell sub(DType d, Cell a, Cell b);
Cell mul(DType d, Cell a, Cell b);
Cell divide(DType d, Cell a, Cell b);
Cell root(DType d, Cell a);
Cell negated(Cell a);
/// Of a monotone function with a result of so many ulps.
Cell monotone(DType d, Cell a, const std::function<Real(Real)>& f, Real ulps);
/// Sums and products in any order; integers wrap.
Cell sum_of(DType d, const std::vector<Cell>& terms);
Cell product_of(DType d, const std::vector<Cell>& factors);
/// The product of two elements of dtype d, as a term of a matrix product or a convolution. A machine that
/// multiplies bf16 itself may take subnormal numbers as 0 (docs/numbers.md).
Cell term_of(DType d, Cell a, Cell b);
Cell max_of(DType d, Cell a, Cell b);

/// -1 if a < b, 1 if a > b, 0 if equal; nothing can be said: 2; one is NaN: 3.
int compared(Cell a, Cell b);
Cell truth(bool value);

} // namespace lathe::net
