// pow: of integers by squaring, of floats by products where the exponent is a small constant, else by powers of 2.
#include <cmath>

#include "graph/function.hpp"
#include "graph/tensor_impl.hpp"

namespace lathe {
using namespace graph;
namespace {

// base * base * ..., by squaring. Each product rounds once, so squares and cubes are as exact as if written
// out.
Tensor product_power(const Tensor& base, uint64_t exponent) {
  std::optional<Tensor> result;
  Tensor power = base;
  for (uint64_t rest = exponent; rest > 0; rest >>= 1) {
    if (rest & 1) result = result ? *result * power : power;
    if (rest > 1) power = power * power;
  }
  return result ? *result : Tensor::ones(base.shape(), base.dtype());
}

// ---- integers ----

Tensor squared_power(Tensor base, const Tensor& exponent) {
  const DType dtype = base.dtype();
  const Tensor zero = Tensor::zeros({}, dtype);
  Tensor result = Tensor::ones(base.shape(), dtype);
  const int bits = size_of(dtype) * 8 - (is_signed(dtype) ? 1 : 0);
  for (int i = 0; i < bits; ++i) {
    const Scalar bit = Scalar::of_int(dtype, static_cast<int64_t>(uint64_t{1} << i));
    result = where((exponent & Tensor::full({}, bit)) != zero, result * base, result);
    if (i + 1 < bits) base = base * base;
  }
  return result;
}

// A negative exponent gives the inverse, rounded towards zero: 0 but for bases 1 and -1.
Tensor integer_power(const Tensor& base, const Tensor& exponent) {
  const DType dtype = base.dtype();
  const Scalar* known = const_scalar(node_of(exponent));
  if (known && known->as_int() >= 0) return product_power(base, static_cast<uint64_t>(known->as_int()));
  const Tensor power = squared_power(base, exponent);
  if (is_unsigned(dtype)) return power;
  const Tensor zero = Tensor::zeros({}, dtype), one = Tensor::ones({}, dtype), minus_one = -one;
  const Tensor odd = (exponent & one) != zero;
  const Tensor inverse = where(base == one, one, where(base == minus_one, where(odd, minus_one, one), zero));
  return where(exponent < zero, inverse, power);
}

// ---- floats: 2^(b log2 a), where the logarithm and the product are held in two numbers ----

// What depends on the float format. The upper number of a pair has half of the digits, so that products of
// two upper numbers are exact.
struct Format {
  DType dtype, bits;         // the float, and the integer of its width
  int digits, bias;          // of the stored significand; of the exponent
  int cut;                   // the number of lowest bits that an upper number leaves out
  int log_terms, exp_terms;  // of the series; the terms left out are less than a rounding
  double most_base_exponent; // an exponent of pow beyond it gives 0, 1 or infinity
  double most_exponent;      // 2 to more than it is infinite, to less than its negative is 0

  Tensor number(double v) const { return graph::number(v, dtype); }
  Tensor integer(int64_t v) const { return Tensor::full({}, Scalar::of_int(bits, v)); }
  Tensor upper(const Tensor& x) const {
    return (x.bitcast(bits) & integer(-(int64_t{1} << cut))).bitcast(dtype);
  }
  double upper(double x) const {
    const Scalar s = Scalar::of_float(dtype, x);
    return std::ldexp(std::trunc(std::ldexp(s.as_float(), digits - cut + 1)), cut - digits - 1);
  }
};

Format format_of(DType dtype) {
  if (dtype == DType::F64) return {dtype, DType::I64, 52, 1023, 27, 11, 13, 0x1p70, 1300};
  return {dtype, DType::I32, 23, 127, 12, 5, 7, 0x1p40, 200};
}

struct Pair {
  Tensor upper, lower;
};

// log2 of a normal or subnormal number above 0; for other a the result is any number.
// With a = 2^n m and s = (m - 1) / (m + 1), log m is 2/3 s (3 + s^2 + 3/5 s^4 + 3/7 s^6 ...).
Pair log2_pair(const Format& f, const Tensor& a) {
  const Tensor one = f.number(1), three = f.number(3);
  const int raise = f.digits + 1;
  const Tensor tiny = a < f.number(std::ldexp(1.0, 1 - f.bias));
  const Tensor bits = where(tiny, a * f.number(std::ldexp(1.0, raise)), a).bitcast(f.bits);
  const Tensor least = f.number(std::sqrt(0.5)).bitcast(f.bits), digits = f.integer(f.digits);
  const Tensor exponent = (bits - least) >> digits;
  const Tensor m = (bits - (exponent << digits)).bitcast(f.dtype); // in [sqrt(1/2), sqrt(2))
  const Tensor n = exponent.cast(f.dtype) - where(tiny, f.number(raise), f.number(0));

  const Tensor u = m - one, v = m + one, s = u / v;
  const Tensor s_upper = f.upper(s), v_upper = f.upper(v), v_lower = m - (v_upper - one);
  const Tensor s_lower = ((u - s_upper * v_upper) - s_upper * v_lower) / v;
  const Tensor z = s * s, z_upper = s_upper * s_upper;
  Tensor series = f.number(3.0 / (2 * f.log_terms + 3));
  for (int k = f.log_terms - 2; k >= 0; --k) series = series * z + f.number(3.0 / (2 * k + 5));
  series = series * z * z + s_lower * (s_upper + s);
  const Tensor sum = f.upper(three + z_upper + series), sum_lower = series - ((sum - three) - z_upper);
  const Tensor product = s_upper * sum, rest = s_lower * sum + sum_lower * s;
  const Tensor log = f.upper(product + rest), log_lower = rest - (log - product);

  constexpr long double kScale = 0.961796693925975604909256L; // 2 / (3 ln 2)
  const double scale = f.upper(static_cast<double>(kScale));
  const Tensor scaled = log * f.number(scale);
  const Tensor scaled_lower =
      log * f.number(static_cast<double>(kScale - scale)) + log_lower * f.number(static_cast<double>(kScale));
  const Tensor result = f.upper(scaled + scaled_lower + n);
  return {result, scaled_lower - ((result - n) - scaled)};
}

// 2^(x.upper + x.lower). If the result is subnormal, the scaling rounds once.
Tensor exp2_pair(const Format& f, const Pair& x) {
  const Tensor one = f.number(1), most = f.number(f.most_exponent);
  const Tensor upper = minimum(maximum(x.upper, -most), most);
  const Tensor lower = minimum(maximum(x.lower, -one), one);
  const Tensor shift = f.number(std::ldexp(1.5, f.digits)); // leaves the nearest whole number in the lowest bits
  const Tensor moved = (upper + lower) + shift;
  const Tensor fraction = upper - (moved - shift), r = fraction + lower, r_lower = lower - (r - fraction);

  constexpr long double kLn2 = 0.693147180559945309417232L;
  std::vector<double> terms{1, static_cast<double>(kLn2)};
  for (int i = 2; i <= f.exp_terms; ++i) terms.push_back(terms.back() * static_cast<double>(kLn2) / i);
  Tensor series = f.number(terms.back());
  for (int i = f.exp_terms - 1; i >= 2; --i) series = series * r + f.number(terms[i]);
  const double ln2_upper = f.upper(static_cast<double>(kLn2));
  const Tensor r_upper = f.upper(r), ln2 = f.number(static_cast<double>(kLn2));
  const Tensor first = r_upper * f.number(ln2_upper), sum = one + first;
  const Tensor rest = (first - (sum - one)) +
                      ((r - r_upper) * ln2 + r_upper * f.number(static_cast<double>(kLn2 - ln2_upper)) +
                       r_lower * ln2 + r * r * series);
  const Tensor exponent = moved.bitcast(f.bits) - shift.bitcast(f.bits);
  const Tensor half = exponent >> f.integer(1);
  const auto power = [&](const Tensor& n) {
    return ((n + f.integer(f.bias)) << f.integer(f.digits)).bitcast(f.dtype);
  };
  return (sum + rest) * power(half) * power(exponent - half);
}

// a^b, where a is the magnitude of the base. Neither is NaN, and b is not 0.
Tensor magnitude_power(const Format& f, const Tensor& a, const Tensor& b) {
  const Tensor most = f.number(f.most_base_exponent), infinite = f.number(kInfinity), zero = f.number(0);
  const Pair log = log2_pair(f, a);
  const Tensor y = minimum(maximum(b, -most), most), y_upper = f.upper(y);
  const Tensor power =
      exp2_pair(f, {y_upper * log.upper, (y - y_upper) * log.upper + y * log.lower});
  const Tensor grows = (a == infinite) == (zero < b);
  return where((a == zero) | (a == infinite), where(grows, infinite, zero), power);
}

// C's pow, special values and signs included.
Tensor float_power(const Tensor& a, const Tensor& b) {
  const Format f = format_of(a.dtype());
  const Tensor zero = f.number(0), one = f.number(1), half = b * f.number(0.5), nan = f.number(std::nan(""));
  const Tensor bits = a.bitcast(f.bits);
  const int64_t all_but_sign = f.dtype == DType::F64 ? INT64_MAX : INT32_MAX;
  const Tensor size = (bits & f.integer(all_but_sign)).bitcast(f.dtype);
  const Tensor magnitude = magnitude_power(f, size, b);
  // A float without a fraction is whole, and so is an infinity. A whole number is odd if its half is not
  // whole.
  const Tensor whole = b == b.trunc(), odd = whole & (half != half.trunc());
  const Tensor is_signed = where((bits < f.integer(0)) & odd, -magnitude, magnitude);
  const Tensor undefined = (a < zero) & (f.number(-kInfinity) < a) & (b != b.trunc());
  const Tensor result = where(undefined | (a != a) | (b != b), nan, is_signed);
  return where((b == zero) | (a == one), one, result);
}

// a^0.5 as pow defines it, which is not sqrt: for -0 it is 0, for -infinity infinity.
Tensor root(const Tensor& a) {
  const Tensor infinite = number(kInfinity, a.dtype()), zero = number(0, a.dtype());
  return where(a == -infinite, infinite, where(a == zero, zero, a.sqrt()));
}

Tensor constant_power(const Tensor& a, double exponent) {
  const bool whole = exponent == std::trunc(exponent);
  if (whole && exponent >= 0 && exponent <= 16) return product_power(a, static_cast<uint64_t>(exponent));
  Tensor value = a;
  if (whole && exponent < 0 && exponent >= -2) // multiplies inverses, as a product of a may overflow first
    value = product_power(a.reciprocal(), static_cast<uint64_t>(-exponent));
  else if (std::fabs(exponent) == 0.5)
    value = exponent > 0 ? root(a) : root(a).reciprocal();
  else
    value = float_power(a, number(exponent, a.dtype()));
  return with_derivative("power", value, {a}, exponent);
}

} // namespace

Tensor pow(const Tensor& a, const Tensor& b) {
  check_numbers("pow", a, b);
  auto [x, y] = match("pow", a, b);
  const DType d = x.dtype();
  if (is_integer(d)) return integer_power(x, y);
  const Tensor base = x.cast(wide(d));
  if (const Scalar* exponent = const_scalar(node_of(y)))
    return constant_power(base, exponent->as_float()).cast(d);
  const Tensor exponent = y.cast(wide(d));
  return with_derivative("pow", float_power(base, exponent), {base, exponent}).cast(d);
}

} // namespace lathe
