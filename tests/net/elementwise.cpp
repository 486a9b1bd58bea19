// Functions of one tensor, element by element: what they mean in long double, and the errors that
// docs/functions.md and the header state.
#include <algorithm>
#include <cmath>

#include "net/program.hpp"
#include "net/rows.hpp"

namespace lathe::net {
namespace {

constexpr Real kPi = 3.14159265358979323846264338327950288L;

/// A function of real numbers.
struct RealRow {
  const char* name;
  Tensor (*call)(const Tensor&);
  Real (*f)(Real);
  double ulps;       // in f32; 0.5 is a correctly rounded result
  double relative;   // in f64, units of |x| 2^-53 of the result
  double absolute;   // likewise of max(1, |x|), not of the result
  double slope;      // bounds the derivative; 0: monotone, so that both ends of an interval are looked at
  double absolute32; // in f32, units of |x| 2^-24
};

Real sigmoid(Real x) { return 1 / (1 + std::exp(-x)); }
Real silu(Real x) { return std::isinf(x) && x < 0 ? -0.0L : x * sigmoid(x); }
Real softplus(Real x) { return std::max(x, Real{0}) + std::log1p(std::exp(-std::fabs(x))); }
Real gelu(Real x) { return std::isinf(x) && x < 0 ? -0.0L : x / 2 * std::erfc(-x / std::sqrt(Real{2})); }
Real gelu_tanh(Real x) {
  if (std::isinf(x)) return x > 0 ? x : -0.0L;
  return x / (1 + std::exp(-2 * std::sqrt(2 / kPi) * (x + 0.044715L * x * x * x)));
}
Real hardswish(Real x) {
  return std::isinf(x) && x < 0 ? -0.0L : x * std::clamp(x + 3, Real{0}, Real{6}) / 6;
}

#define CALL(name) [](const Tensor& x) { return x.name; }
const RealRow kReals[] = {
    {"sqrt()", CALL(sqrt()), std::sqrt, 0.5, 0, 0, 0, 0},
    {"rsqrt()", CALL(rsqrt()), [](Real x) { return 1 / std::sqrt(x); }, 2, 0, 0, 0, 0},
    {"reciprocal()", CALL(reciprocal()), [](Real x) { return 1 / x; }, 0.5, 0, 0, 0, 0},
    {"exp()", CALL(exp()), std::exp, 1, 1.2, 0, 0, 0},
    {"exp2()", CALL(exp2()), std::exp2, 1, 0, 0, 0, 0},
    {"log()", CALL(log()), std::log, 1, 0, 0, 0, 0},
    {"log2()", CALL(log2()), std::log2, 1.25, 0, 0, 0, 0},
    {"log10()", CALL(log10()), std::log10, 1, 0, 0, 0, 0},
    {"log1p()", CALL(log1p()), std::log1p, 3, 0, 0, 0, 0},
    {"expm1()", CALL(expm1()), std::expm1, 4, 1.2, 2, 0, 0},
    {"sin()", CALL(sin()), std::sin, 1.25, 0, 0, 1, 0},
    {"cos()", CALL(cos()), std::cos, 1.25, 0, 3.5, 1, 0},
    {"sinh()", CALL(sinh()), std::sinh, 4, 1.2, 0, 0, 0},
    {"tanh()", CALL(tanh()), std::tanh, 1.5, 2.4, 0, 0, 0},
    {"asin()", CALL(asin()), std::asin, 2.5, 0, 0, 0, 0},
    {"acos()", CALL(acos()), std::acos, 1.5, 0, 0, 0, 0},
    {"atan()", CALL(atan()), std::atan, 1.75, 0, 0, 0, 0},
    {"asinh()", CALL(asinh()), std::asinh, 4, 0, 0, 0, 0},
    {"acosh()", CALL(acosh()), std::acosh, 4, 0, 0, 0, 0},
    {"atanh()", CALL(atanh()), std::atanh, 2.5, 0, 0, 0, 0},
    {"erf()", CALL(erf()), std::erf, 1.25, 0, 9, 0, 0},
    {"sigmoid()", CALL(sigmoid()), sigmoid, 2.5, 1.2, 0, 0, 0},
    {"silu()", CALL(silu()), silu, 3, 1.2, 0, 1.1, 0},
    {"softplus()", CALL(softplus()), softplus, 3, 1.2, 0, 0, 0},
    {"gelu()", CALL(gelu()), gelu, 2, 0, 9, 1.13, 2},
    {"gelu(true)", CALL(gelu(true)), gelu_tanh, 8, 4, 0, 1.13, 2},
    {"hardswish()", CALL(hardswish()), hardswish, 2, 0, 2, 1.5, 2},
    {"elu()", CALL(elu()), [](Real x) { return x < 0 ? std::expm1(x) : x; }, 4, 1.2, 2, 0, 0},
    {"elu(0.5)", CALL(elu(0.5)), [](Real x) { return x < 0 ? std::expm1(x) / 2 : x; }, 4, 1.2, 2, 0, 0},
    {"leaky_relu(0.25)", CALL(leaky_relu(0.25)), [](Real x) { return x < 0 ? x / 4 : x; }, 0.5, 0, 0, 0, 0},
    {"square()", CALL(square()), nullptr, 0.5, 0, 0, 0, 0},
    {"cosh()", CALL(cosh()), nullptr, 2, 1.2, 0, 0, 0},
    {"tan()", CALL(tan()), nullptr, 3.5, 0, 0, 0, 0},
};

/// What is stated of a row's f at x, in dtype d, of which y is the result: docs/functions.md in f32, and the
/// header's bound, which holds where a schedule keeps what an exp2, log2 or sin is applied to in a buffer,
/// and in f64.
Real stated_error(const RealRow& row, DType d, Real x, Real y) {
  if (row.ulps <= 0.5) return row.absolute32 * std::fabs(x) * 0x1p-24L;
  const bool single = d != DType::F64;
  const Real ulps = single ? row.ulps + 1 : std::max(row.ulps, 3.5) - 0.5;
  // atan of an infinity is finite: nothing times an infinity is nothing here.
  const auto times = [](double factor, Real size) { return factor == 0 ? 0 : factor * size; };
  return (ulps + times(row.relative, std::fabs(x))) * 2 * half_ulp(d, y) +
         times(row.absolute, std::ldexp(std::max(Real{1}, std::fabs(x)), -format_of(d).digits)) +
         (single ? times(row.absolute32, std::fabs(x) * 0x1p-24L) : 0);
}

/// f over [x - e, x + e].
Cell through(const RealRow& row, DType d, Cell c) {
  if (std::string_view(row.name) == "sqrt()" && c.exact() && c.v == 0) return c;
  const Real v = row.f(c.v);
  if (std::isnan(c.v)) return {v, 0};
  if (c.v == 0 && c.e > 0 && std::isinf(v) && row.f(-c.v) != v) return undecided(); // by the sign of a zero
  Real e = 0;
  if (!c.exact()) {
    const Real low = row.f(c.v - c.e), high = row.f(c.v + c.e);
    if (std::isnan(low) || std::isnan(high) || !std::isfinite(v)) return undecided();
    const bool between = std::min(low, high) <= v && v <= std::max(low, high);
    if (c.v - c.e < 0 && c.v + c.e > 0 && (!between || low > high) && row.slope == 0)
      return undecided(); // a pole
    e = row.slope > 0 ? row.slope * c.e : std::max(std::fabs(high - v), std::fabs(v - low)) * 1.0001L;
    if (!(e < kInfinity)) return undecided();
  } else if (std::isnan(v) || (std::isinf(c.v) && 2 * v == std::trunc(2 * v))) { // a right angle is rounded
    return {v, std::isnan(v) ? 0 : v == 0 ? kSignless : 0};
  }
  e += std::fabs(v) * 0x1p-62L;
  if (std::isinf(v)) return {v, 0};
  if (row.ulps <= 0.5) return rounded(d, {v, c.exact() ? 0 : e});
  return rounded(d, {v, e + stated_error(row, d, c.v, v)});
}

Cell squared(DType d, Cell c) { return mul(d, c, c); }

Cell hyperbolic_cosine(const RealRow& row, DType d, Cell c) {
  const Real v = std::cosh(c.v);
  if (!std::isfinite(v)) return std::isnan(v) || std::isinf(c.v) ? Cell{v, 0} : rounded(d, {v, 0});
  const Real e = std::max(std::fabs(std::cosh(c.v + c.e) - v), std::fabs(v - std::cosh(c.v - c.e)));
  if (!(e < kInfinity)) return undecided();
  return rounded(d, {v, e * 1.0001L + v * 0x1p-62L + stated_error(row, d, c.v, v)});
}

Cell tangent(const RealRow& row, DType d, Cell c) {
  if (!std::isfinite(c.v)) return {std::nanl(""), 0};
  const Real v = std::tan(c.v), slope = 1 + v * v;
  if (slope * c.e > 0.01L) return undecided();
  Real e = 1.1L * slope * c.e + stated_error(row, d, c.v, v) + std::fabs(v) * 0x1p-62L;
  e += slope * std::max(Real{1}, std::fabs(c.v)) *
       std::ldexp(Real{4}, -format_of(d).digits); // cos has an absolute error
  return rounded(d, {v, e});
}

/// sinh and cosh in f32 are infinite a little before they overflow, and silu loses digits where e^x is
/// subnormal.
bool at_edge(std::string_view name, DType d, Cell c) {
  const Real size = std::fabs(c.v) + c.e;
  if (name == "sinh()" || name == "cosh()")
    return d == DType::F64 ? size > 709 && size < 711 : size > 88.6L && size < 89.5L;
  if (name == "silu()" || name == "gelu(true)" || name == "gelu()")
    return d == DType::F64 && name != "gelu(true)" ? c.v < -20 : c.v < -5;
  return false;
}

/// x times a factor that goes to 0: at -infinity some take the limit, others -infinity times 0.
bool contested(std::string_view name, Cell c) {
  return std::isinf(c.v) && c.v < 0 &&
         (name == "silu()" || name == "gelu()" || name == "gelu(true)" || name == "hardswish()");
}

Array real_function(const RealRow& row, const Array& a) {
  const DType out = real_dtype(a.dtype), d = wide_dtype(out);
  return mapped(cast_array(out, a), out, [&](Cell c) {
    const std::string_view name = row.name;
    if ((at_edge(name, d, c) && std::isfinite(c.v)) || contested(name, c)) return undecided();
    const Cell y = name == "square()" ? squared(out, c)
                   : name == "cosh()" ? hyperbolic_cosine(row, d, c)
                   : name == "tan()"  ? tangent(row, d, c)
                                      : through(row, d, c);
    return out == d ? y : rounded(out, y);
  });
}

/// A function whose results are exact: data, signs, whole numbers.
struct ExactRow {
  const char* name;
  Tensor (*call)(const Tensor&);
  bool (*takes)(DType);
  DType (*gives)(DType);
  Cell (*f)(DType, Cell);
};

bool any_dtype(DType) { return true; }
bool number(DType d) { return d != DType::Bool; }
bool whole(DType d) { return !is_float(d); }
DType same(DType d) { return d; }
DType boolean(DType) { return DType::Bool; }

/// A step function of floats: decided where the whole interval gives the same.
Cell stepped(DType d, Cell c, Real (*f)(Real)) {
  if (!is_float(d) || !std::isfinite(c.v)) return c;
  const Real low = f(c.v - c.e), high = f(c.v + c.e);
  return low == high ? Cell{low, low == 0 ? kSignless : 0} : undecided();
}
Real half_even(Real x) { return std::nearbyint(x); }

const ExactRow kExact[] = {
    {"neg()", CALL(neg()), number, same,
     [](DType d, Cell c) { return is_float(d) ? negated(c) : wrapped(d, -static_cast<Wide>(c.v)); }},
    {"abs()", CALL(abs()), any_dtype, same,
     [](DType d, Cell c) {
       return is_float(d) ? Cell{std::fabs(c.v), c.v == 0 && c.exact() ? 0 : c.e}
                          : wrapped(d, c.v < 0 ? -static_cast<Wide>(c.v) : static_cast<Wide>(c.v));
     }},
    {"sign()", CALL(sign()), number, same,
     [](DType, Cell c) {
       if (std::isnan(c.v)) return c;
       if (!c.exact() && std::fabs(c.v) <= c.e) return undecided();
       return c.v == 0 ? Cell{0, kSignless} : Cell{c.v > 0 ? Real{1} : Real{-1}, 0};
     }},
    {"floor()", CALL(floor()), number, same, [](DType d, Cell c) { return stepped(d, c, std::floor); }},
    {"ceil()", CALL(ceil()), number, same, [](DType d, Cell c) { return stepped(d, c, std::ceil); }},
    {"trunc()", CALL(trunc()), number, same, [](DType d, Cell c) { return stepped(d, c, std::trunc); }},
    {"round()", CALL(round()), number, same, [](DType d, Cell c) { return stepped(d, c, half_even); }},
    {"relu()", CALL(relu()), number, same, [](DType d, Cell c) { return max_of(d, c, {0, kSignless}); }},
    {"isnan()", CALL(isnan()), any_dtype, boolean, [](DType, Cell c) { return truth(std::isnan(c.v)); }},
    {"isinf()", CALL(isinf()), any_dtype, boolean, [](DType, Cell c) { return truth(std::isinf(c.v)); }},
    {"isfinite()", CALL(isfinite()), any_dtype, boolean,
     [](DType, Cell c) { return truth(std::isfinite(c.v)); }},
    {"logical_not()", CALL(logical_not()), any_dtype, boolean,
     [](DType, Cell c) { return c.exact() || std::fabs(c.v) > c.e ? truth(c.v == 0) : undecided(); }},
    {"bitwise_not()", CALL(bitwise_not()), whole, same,
     [](DType d, Cell c) {
       return d == DType::Bool ? truth(c.v == 0) : wrapped(d, -static_cast<Wide>(c.v) - 1);
     }},
    {"contiguous()", CALL(contiguous()), any_dtype, same, [](DType, Cell c) { return c; }},
};
#undef CALL

std::string member(const char* name, const Texts& x) { return fmt::format("{}.{}", x[0], name); }

void add_clamp(std::vector<Function>& rows) {
  // reals: low, high; ints: whether there is each
  const auto low = [](const Step& s) { return s.ints[0] ? std::optional<double>(s.reals[0]) : std::nullopt; };
  const auto high = [](const Step& s) {
    return s.ints[1] ? std::optional<double>(s.reals[1]) : std::nullopt;
  };
  rows.push_back({"clamp", "elementwise",
                  [](Maker& m, Step& s) {
                    s.in = {m.some([](const Array& a) { return a.dtype != DType::Bool; })};
                    const double from = static_cast<double>(m.below(21)) / 4 - 3;
                    s.reals = {from, from + static_cast<double>(m.below(12)) / 4};
                    s.ints = {1, 1};
                    if (m.chance(40)) s.ints[m.below(2)] = 0;
                    return true;
                  },
                  [=](const Step& s, const Tensors& x) { return x[0].clamp(low(s), high(s)); },
                  [=](const Step& s, const Arrays& x) {
                    const DType d = x[0]->dtype;
                    require(d != DType::Bool, "dtype");
                    const auto bound = [&](double v) {
                      return is_float(d) ? Cell{round_to(d, v), kSignless} : cast_cell(d, DType::F64, {v, 0});
                    };
                    return mapped(*x[0], d, [&](Cell c) {
                      if (low(s)) c = max_of(d, c, bound(is_float(d) ? *low(s) : std::ceil(*low(s))));
                      if (high(s))
                        c = negated(max_of(d, negated(c),
                                           negated(bound(is_float(d) ? *high(s) : std::floor(*high(s))))));
                      return c;
                    });
                  },
                  [=](const Step& s, const Texts& x) {
                    return fmt::format("{}.clamp({}, {})", x[0], low(s) ? real_text(*low(s)) : "std::nullopt",
                                       high(s) ? real_text(*high(s)) : "std::nullopt");
                  },
                  2, true});
}

Cell bits_as(DType to, DType from, Cell c) {
  if (to == from) return c;
  if (!c.decided() || c.e != 0 || std::isnan(c.v)) return undecided();
  alignas(8) unsigned char bytes[8] = {};
  // lathe's Scalar only writes and reads the element here; the value in it is exact.
  (is_float(from) ? Scalar::of_float(from, static_cast<double>(c.v))
                  : Scalar::of_int(from, from == DType::U64 ? static_cast<int64_t>(static_cast<uint64_t>(c.v))
                                                            : static_cast<int64_t>(c.v)))
      .to_memory(bytes);
  const Scalar read = Scalar::from_memory(to, bytes);
  if (is_float(to)) return {read.as_float(), 0};
  return {to == DType::U64 ? static_cast<Real>(read.bits()) : static_cast<Real>(read.as_int()), 0};
}

void add_casts(std::vector<Function>& rows) {
  rows.push_back(
      {"cast", "cast",
       [](Maker& m, Step& s) {
         s.in = {m.some()};
         s.dtype = m.dtype();
         return true;
       },
       [](const Step& s, const Tensors& x) { return x[0].cast(s.dtype); },
       [](const Step& s, const Arrays& x) { return cast_array(s.dtype, *x[0]); },
       [](const Step& s, const Texts& x) { return fmt::format("{}.cast({})", x[0], dtype_text(s.dtype)); },
       8});
  rows.push_back(
      {"bitcast", "cast",
       [](Maker& m, Step& s) {
         s.in = {m.some([](const Array& a) { return a.dtype != DType::Bool; })};
         s.dtype = m.dtype();
         return s.dtype != DType::Bool && size_of(s.dtype) == size_of(m.value(s.in[0]).dtype);
       },
       [](const Step& s, const Tensors& x) { return x[0].bitcast(s.dtype); },
       [](const Step& s, const Arrays& x) {
         const DType from = x[0]->dtype;
         require(from != DType::Bool && s.dtype != DType::Bool && size_of(from) == size_of(s.dtype),
                 "bitcast");
         return mapped(*x[0], s.dtype, [&](Cell c) { return bits_as(s.dtype, from, c); });
       },
       [](const Step& s, const Texts& x) { return fmt::format("{}.bitcast({})", x[0], dtype_text(s.dtype)); },
       2});
  rows.push_back({"realise", "realise",
                  [](Maker& m, Step& s) {
                    s.in = {m.some()};
                    return true;
                  },
                  [](const Step&, const Tensors& x) { return x[0].inputs().empty() ? x[0].realise() : x[0]; },
                  [](const Step&, const Arrays& x) { return *x[0]; },
                  [](const Step&, const Texts& x) {
                    return fmt::format("{0}.inputs().empty() ? {0}.realise() : {0}", x[0]);
                  },
                  1});
}

} // namespace

void add_elementwise(std::vector<Function>& rows) {
  for (const RealRow& row : kReals)
    rows.push_back({row.name, "elementwise",
                    [](Maker& m, Step& s) {
                      s.in = {m.chance(85) ? m.some_float() : m.some()};
                      return true;
                    },
                    [&row](const Step&, const Tensors& x) { return row.call(x[0]); },
                    [&row](const Step&, const Arrays& x) {
                      return std::string_view(row.name) == "square()" && !is_float(x[0]->dtype)
                                 ? mapped(*x[0], x[0]->dtype,
                                          [&](Cell c) {
                                            if (x[0]->dtype == DType::Bool) return c;
                                            const Real size = std::fabs(c.v);
                                            return product_of(x[0]->dtype, {Cell{size, 0}, Cell{size, 0}});
                                          })
                                 : real_function(row, *x[0]);
                    },
                    [&row](const Step&, const Texts& x) { return member(row.name, x); }, 1, true});
  for (const ExactRow& row : kExact)
    rows.push_back({row.name, "elementwise",
                    [&row](Maker& m, Step& s) {
                      s.in = {m.some([&row](const Array& a) { return row.takes(a.dtype); })};
                      return true;
                    },
                    [&row](const Step&, const Tensors& x) { return row.call(x[0]); },
                    [&row](const Step&, const Arrays& x) {
                      require(row.takes(x[0]->dtype), "dtype");
                      const DType d = x[0]->dtype;
                      return mapped(*x[0], row.gives(d), [&](Cell c) { return row.f(d, c); });
                    },
                    [&row](const Step&, const Texts& x) { return member(row.name, x); }, 2,
                    std::string_view(row.name) == "neg()" || std::string_view(row.name) == "abs()" ||
                        std::string_view(row.name) == "relu()" ||
                        std::string_view(row.name) == "contiguous()"});
  add_clamp(rows);
  add_casts(rows);
}

} // namespace lathe::net
