// C++ numbers beside tensors: which dtype they take, and comparisons with numbers that an integer dtype does
// not hold.
#include <cmath>

#include "graph/narrow.hpp"
#include "lathe/functions.hpp"

namespace lathe {
using namespace graph;
namespace {

/// Where a number lies among the values of an integer dtype: at the value `at`, or below or above all of
/// them.
struct Place {
  int beyond = 0; // -1 below all values, 1 above
  Scalar at;
};

Place place_of(Number n, DType dtype) {
  const int bits = bits_of(dtype) - is_signed(dtype);
  const uint64_t greatest = ~uint64_t{0} >> (64 - bits);
  const bool negative = n.kind() == Number::Kind::Signed && static_cast<int64_t>(n.as_bits()) < 0;
  if (negative && (is_unsigned(dtype) || ~n.as_bits() > greatest)) return {-1, {}};
  if (!negative && n.as_bits() > greatest) return {1, {}};
  return {0, Scalar::of_int(dtype, static_cast<int64_t>(n.as_bits()))};
}

/// The place of `n`, a whole number or an infinity.
Place place_of(double n, DType dtype) {
  const double above = std::ldexp(1.0, bits_of(dtype) - is_signed(dtype));
  if (n >= above) return {1, {}};
  if (n < (is_signed(dtype) ? -above : 0)) return {-1, {}};
  return {0, Scalar::of_float(dtype, n)};
}

std::string text_of(Number n) {
  return n.kind() == Number::Kind::Signed ? fmt::format("{}", static_cast<int64_t>(n.as_bits()))
                                          : fmt::format("{}", n.as_bits());
}

Tensor compare_tensors(const Tensor& a, Comparison how, const Tensor& b) {
  switch (how) {
  case Comparison::Less: return a < b;
  case Comparison::LessEqual: return a <= b;
  case Comparison::Greater: return a > b;
  case Comparison::GreaterEqual: return a >= b;
  case Comparison::Equal: return a == b;
  case Comparison::NotEqual: return a != b;
  }
  throw InternalError("compare: bad comparison");
}

bool holds(int sign, Comparison how) { // `sign` is that of a - b: -1 or 1
  switch (how) {
  case Comparison::Less:
  case Comparison::LessEqual: return sign < 0;
  case Comparison::Greater:
  case Comparison::GreaterEqual: return sign > 0;
  case Comparison::Equal: return false;
  case Comparison::NotEqual: return true;
  }
  return false;
}

Tensor compare_integers(const Tensor& a, Comparison how, const Place& b) {
  if (b.beyond == 0) return compare_tensors(a, how, Tensor::full({}, b.at));
  return Tensor::full(a.shape(), holds(-b.beyond, how));
}

} // namespace

void graph::check_holds(std::string_view op, int64_t value, DType dtype) {
  if (is_integer(dtype) && place_of(Number(value), dtype).beyond != 0)
    fail(ErrorKind::Value, "{}: {} as a number of {}, expected one that it holds", op, value, to_string(dtype));
}

Tensor weak(Number value, DType beside, std::string_view op) {
  switch (value.kind()) {
  case Number::Kind::Bool: return Tensor::full({}, value.as_bits() != 0);
  case Number::Kind::Float:
    return Tensor::full({}, Scalar::of_float(is_float(beside) ? beside : DType::F64, value.as_float()));
  default: break;
  }
  const bool is_large = value.kind() == Number::Kind::Unsigned && value.as_bits() > INT64_MAX;
  const DType own = is_large ? DType::U64 : DType::I64;
  const Scalar exact = Scalar::of_int(own, static_cast<int64_t>(value.as_bits()));
  if (beside == DType::Bool) return Tensor::full({}, exact);
  if (is_float(beside)) return Tensor::full({}, exact.cast(beside));
  const Place place = place_of(value, beside);
  if (place.beyond != 0)
    fail(ErrorKind::Value, "{}: {} is no {}, expected a number that is, or a tensor of a wider dtype", op,
         text_of(value), to_string(beside));
  return Tensor::full({}, place.at);
}

Tensor compare(const Tensor& a, Comparison how, Number b) {
  if (is_narrow(a.dtype())) return compare(a.cast(read_as(a.dtype())), how, b);
  if (!is_integer(a.dtype()) || b.kind() == Number::Kind::Bool)
    return compare_tensors(a, how, weak(b, a.dtype()));
  if (b.kind() != Number::Kind::Float) return compare_integers(a, how, place_of(b, a.dtype()));
  const double value = b.as_float();
  if (std::isnan(value)) return Tensor::full(a.shape(), how == Comparison::NotEqual);
  // An integer is less than 2.5 if it is less than 3, and greater if it is greater than 2.
  const bool up = how == Comparison::Less || how == Comparison::GreaterEqual;
  const double bound = up ? std::ceil(value) : std::floor(value);
  if (bound != value && (how == Comparison::Equal || how == Comparison::NotEqual))
    return Tensor::full(a.shape(), how == Comparison::NotEqual);
  return compare_integers(a, how, place_of(bound, a.dtype()));
}

Tensor detail::in_place(const char* op, const Tensor& a, Tensor value) {
  if (value.dtype() != a.dtype())
    fail(ErrorKind::DType, "{}: {} becomes {}, expected the same dtype", op, to_string(a.dtype()),
         to_string(value.dtype()));
  if (value.shape() != a.shape())
    fail(ErrorKind::Shape, "{}: {} becomes {}, expected the same shape", op, to_string(a.shape()),
         to_string(value.shape()));
  return value;
}

} // namespace lathe
