// Functions of two or three tensors, with broadcasting, promotion, and numbers beside tensors.
#include <algorithm>
#include <cmath>

#include "net/program.hpp"
#include "net/rows.hpp"

namespace lathe::net {
namespace {

struct Binary {
  const char* name;
  const char* symbol; // of an operator, or of a function of two tensors
  bool is_operator;
  bool (*takes)(DType promoted);
  DType (*gives)(DType promoted);
  Cell (*f)(DType d, Cell a, Cell b);
  int weight = 3;
  bool smooth = false;
};

bool any_dtype(DType) { return true; }
bool number(DType d) { return d != DType::Bool; }
bool bits(DType d) { return !is_float(d); }
bool whole(DType d) { return is_integer(d); }
DType same(DType d) { return d; }
DType boolean(DType) { return DType::Bool; }

Wide integer(Cell c) { return static_cast<Wide>(c.v); }
bool nonzero(Cell c) { return c.v != 0; }

Cell plus(DType d, Cell a, Cell b) {
  if (d == DType::Bool) return truth(nonzero(a) || nonzero(b));
  return is_float(d) ? add(d, a, b) : wrapped(d, integer(a) + integer(b));
}
Cell minus(DType d, Cell a, Cell b) {
  return is_float(d) ? sub(d, a, b) : wrapped(d, integer(a) - integer(b));
}
Cell times(DType d, Cell a, Cell b) {
  if (d == DType::Bool) return truth(nonzero(a) && nonzero(b));
  return is_float(d) ? mul(d, a, b) : product_of(d, {a, b});
}
Cell over(DType d, Cell a, Cell b) { return divide(d, a, b); }

/// Of exact finite numbers, b not 0: the quotient rounded down.
Real exact_floor(Real a, Real b) {
  const Real r = std::fmod(a, b);
  const Real q = (a - r) / b; // whole, but rounded if it is beyond 64 bits
  return r != 0 && (r < 0) != (b < 0) ? q - 1 : q;
}
Cell floor_quotient(DType d, Cell a, Cell b) {
  if (!is_float(d)) {
    const Wide x = integer(a), y = integer(b);
    if (y == 0) return wrapped(d, 0);
    Wide q = x / y;
    if (x % y != 0 && (x < 0) != (y < 0)) --q;
    return wrapped(d, q);
  }
  if (std::isnan(a.v) || std::isnan(b.v)) return {std::nanl(""), 0};
  if (!std::isfinite(a.v) || !std::isfinite(b.v) || b.v == 0) {
    if (!a.exact() || !b.exact()) return undecided();
    if (b.v == 0) return divide(d, a, b);
    if (std::isinf(a.v)) return {std::nanl(""), 0}; // of a remainder that is NaN, in NumPy
    return a.v == 0 ? Cell{0, kSignless} : Cell{(a.v < 0) != (b.v < 0) ? Real{-1} : Real{0}, kSignless};
  }
  if (a.exact() && b.exact()) {
    const Real whole = exact_floor(a.v, b.v);
    // NumPy rounds what the remainder leaves of a; a quotient with most of the format's digits shows it.
    if (std::fabs(whole) >= std::ldexp(Real{1}, format_of(wide_dtype(d)).digits - 2)) return undecided();
    return rounded(d, {whole, 0});
  }
  if (std::fabs(b.v) <= b.e) return undecided();
  const Real q = a.v / b.v, e = (a.e + std::fabs(q) * b.e) / (std::fabs(b.v) - b.e) + std::fabs(q) * 0x1p-60L;
  const Real low = std::floor(q - e), high = std::floor(q + e);
  return low == high ? rounded(d, {low, 0}) : undecided();
}

Cell remainder(DType d, Cell a, Cell b) {
  if (!is_float(d)) {
    const Wide x = integer(a), y = integer(b);
    if (y == 0) return wrapped(d, 0);
    Wide r = x % y;
    if (r != 0 && (r < 0) != (y < 0)) r += y;
    return wrapped(d, r);
  }
  if (std::isnan(a.v) || std::isnan(b.v) || std::isinf(a.v)) return {std::nanl(""), 0};
  if (b.v == 0 && b.exact()) return {std::nanl(""), 0};
  if (std::isinf(b.v)) {
    if (!a.exact()) return undecided();
    return a.v == 0 || (a.v < 0) == (b.v < 0) ? Cell{a.v, a.v == 0 ? kSignless : 0} : Cell{b.v, 0};
  }
  if (a.exact() && b.exact()) {
    const Real r = std::fmod(a.v, b.v);
    if (r == 0) return {0, kSignless};
    return (r < 0) != (b.v < 0) ? add(d, {r, 0}, b) : rounded(d, {r, 0});
  }
  const Cell q = floor_quotient(DType::F64, a, b);
  if (!q.decided() || std::fabs(q.v) > 0x1p40L) return undecided();
  return rounded(d, {a.v - q.v * b.v, a.e + std::fabs(q.v) * b.e + std::fabs(a.v) * 0x1p-60L});
}

Cell whole_power(DType d, Cell a, Cell b) {
  const Wide x = integer(a);
  Wide n = integer(b);
  if (n < 0) {
    if (x == 1) return {1, 0};
    if (x == -1) return wrapped(d, n % 2 == 0 ? 1 : -1);
    return {0, 0};
  }
  Cell result{1, 0}, power = a;
  for (; n > 0; n >>= 1) {
    if (n & 1) result = product_of(d, {result, power});
    power = product_of(d, {power, power});
  }
  return result;
}

Cell power(DType d, Cell a, Cell b) {
  if (!is_float(d)) return whole_power(d, a, b);
  const DType w = wide_dtype(d);
  if (!b.exact() || (!a.exact() && a.v - a.e <= 0)) return undecided();
  if ((a.v == 0 && a.e > 0) || (std::isinf(b.v) && std::fabs(std::fabs(a.v) - 1) == 0)) {
    if (a.v == 0) return b.v > 0 ? Cell{0, kSignless} : b.v == 0 ? Cell{1, 0} : undecided();
  }
  const Real v = std::pow(a.v, b.v);
  if (a.exact() && (std::isnan(v) || a.v == 0 || !std::isfinite(a.v) || !std::isfinite(b.v)))
    return {v, std::isnan(v) || v != 0 ? 0 : kSignless};
  if (b.v == 0 || (a.exact() && a.v == 1)) return {1, 0};
  Real e = 0;
  if (!a.exact())
    e = std::max(std::fabs(std::pow(a.v + a.e, b.v) - v), std::fabs(std::pow(a.v - a.e, b.v) - v)) * 1.001L;
  if (std::isinf(v) || !(e < kInfinity)) return e > 0 ? undecided() : Cell{v, 0};
  const Real unit = std::ldexp(Real{1}, -format_of(w).digits);
  const Real relative = (4 * std::fabs(b.v * std::log2(std::fabs(a.v))) + 24) * unit;
  // Powers by multiplication go through others, which may underflow or overflow before the inverse.
  if (std::fabs(v) < std::ldexp(Real{1}, format_of(w).least) ||
      std::fabs(v) * std::ldexp(Real{1}, format_of(w).least) > 0.1L)
    return undecided();
  return rounded(d, rounded(w, {v, e + std::fabs(v) * relative}));
}

Cell larger(DType d, Cell a, Cell b) {
  return d == DType::Bool ? truth(nonzero(a) || nonzero(b)) : max_of(d, a, b);
}
Cell smaller(DType d, Cell a, Cell b) {
  return d == DType::Bool ? truth(nonzero(a) && nonzero(b)) : negated(max_of(d, negated(a), negated(b)));
}

template <class F> Cell judged(Cell a, Cell b, F f) {
  const int c = compared(a, b);
  return c == 2 ? undecided() : truth(f(c));
}
Cell less(DType, Cell a, Cell b) {
  return judged(a, b, [](int c) { return c == -1; });
}
Cell less_equal(DType, Cell a, Cell b) {
  return judged(a, b, [](int c) { return c == -1 || c == 0; });
}
Cell greater(DType, Cell a, Cell b) {
  return judged(a, b, [](int c) { return c == 1; });
}
Cell greater_equal(DType, Cell a, Cell b) {
  return judged(a, b, [](int c) { return c == 0 || c == 1; });
}
Cell equal(DType, Cell a, Cell b) {
  return judged(a, b, [](int c) { return c == 0; });
}
Cell unequal(DType, Cell a, Cell b) {
  return judged(a, b, [](int c) { return c != 0; });
}

Cell bit_and(DType d, Cell a, Cell b) { return wrapped(d, integer(a) & integer(b)); }
Cell bit_or(DType d, Cell a, Cell b) { return wrapped(d, integer(a) | integer(b)); }
Cell bit_xor(DType d, Cell a, Cell b) { return wrapped(d, integer(a) ^ integer(b)); }
Cell shift_left(DType d, Cell a, Cell b) {
  const Wide by = integer(b);
  if (by < 0 || by >= dtype_bits(d)) return {0, 0};
  Cell c = a;
  for (Wide i = 0; i < by; ++i) c = wrapped(d, integer(c) * 2);
  return c;
}
Cell shift_right(DType d, Cell a, Cell b) {
  const Wide by = integer(b);
  if (by < 0 || by >= dtype_bits(d)) return {a.v < 0 ? Real{-1} : Real{0}, 0};
  return wrapped(d, integer(a) >> static_cast<int>(by));
}

const Binary kBinary[] = {
    {"add", "+", true, any_dtype, same, plus, 8, true},
    {"sub", "-", true, number, same, minus, 6, true},
    {"mul", "*", true, any_dtype, same, times, 8, true},
    {"div", "/", true, any_dtype, real_dtype, over, 4, true},
    {"mod", "%", true, number, same, remainder, 2},
    {"floor_divide", "floor_divide", false, number, same, floor_quotient, 2},
    {"pow", "pow", false, number, same, power, 2},
    {"maximum", "maximum", false, any_dtype, same, larger, 2, true},
    {"minimum", "minimum", false, any_dtype, same, smaller, 2, true},
    {"less", "<", true, any_dtype, boolean, less, 1},
    {"less_equal", "<=", true, any_dtype, boolean, less_equal, 1},
    {"greater", ">", true, any_dtype, boolean, greater, 1},
    {"greater_equal", ">=", true, any_dtype, boolean, greater_equal, 1},
    {"equal", "==", true, any_dtype, boolean, equal, 1},
    {"unequal", "!=", true, any_dtype, boolean, unequal, 1},
    {"and", "&", true, bits, same, bit_and, 1},
    {"or", "|", true, bits, same, bit_or, 1},
    {"xor", "^", true, bits, same, bit_xor, 1},
    {"shift_left", "<<", true, whole, same, shift_left, 1},
    {"shift_right", ">>", true, whole, same, shift_right, 1},
};

/// Applies the operator to tensors, or to a tensor and a number on either side.
template <class A, class B> Tensor operated(std::string_view op, const A& a, const B& b) {
  if (op == "+") return a + b;
  if (op == "-") return a - b;
  if (op == "*") return a * b;
  if (op == "/") return a / b;
  if (op == "%") return a % b;
  if (op == "<") return a < b;
  if (op == "<=") return a <= b;
  if (op == ">") return a > b;
  if (op == ">=") return a >= b;
  if (op == "==") return a == b;
  if (op == "!=") return a != b;
  throw Invalid("operator");
}
template <class A, class B> Tensor bits_operated(std::string_view op, const A& a, const B& b) {
  if (op == "&") return a & b;
  if (op == "|") return a | b;
  if (op == "^") return a ^ b;
  return operated(op, a, b);
}

Tensor of_tensors(const Binary& row, const Tensor& a, const Tensor& b) {
  const std::string_view op = row.symbol;
  if (op == "floor_divide") return floor_divide(a, b);
  if (op == "pow") return pow(a, b);
  if (op == "maximum") return maximum(a, b);
  if (op == "minimum") return minimum(a, b);
  if (op == "<<") return a << b;
  if (op == ">>") return a >> b;
  return bits_operated(op, a, b);
}

// A number: ints[0] is 1 where it stands on the right, 2 on the left; ints[1] is 1 for an integer; its value
// in reals.
Tensor build(const Binary& row, const Step& s, const Tensors& x) {
  if (s.ints.empty()) return of_tensors(row, x[0], x[1]);
  const double v = s.reals[0];
  const auto n = static_cast<int64_t>(v);
  if (s.ints[0] == 1) return s.ints[1] ? bits_operated(row.symbol, x[0], n) : operated(row.symbol, x[0], v);
  return s.ints[1] ? bits_operated(row.symbol, n, x[0]) : operated(row.symbol, v, x[0]);
}

Array number_array(const Step& s, DType beside) {
  const bool whole_number = s.ints[1];
  const DType d = whole_number       ? (beside == DType::Bool ? DType::I64 : beside)
                  : is_float(beside) ? beside
                                     : DType::F64;
  const Real v = whole_number ? s.reals[0] + 0.0 : s.reals[0]; // an integer has no -0
  const Cell c = is_float(d) ? Cell{round_to(d, v), 0} : wrapped(d, static_cast<Wide>(s.reals[0]));
  return {d, {}, {c}};
}

Array reference(const Binary& row, const Array& a, const Array& b) {
  const DType d = promoted(a.dtype, b.dtype), out = row.gives(d);
  require(row.takes(d), "dtype");
  const Sizes shape = broadcast(a.shape, b.shape);
  const DType in = row.gives == real_dtype ? out : d;
  const Array x = broadcast_array(cast_array(in, a), shape), y = broadcast_array(cast_array(in, b), shape);
  Array result{out, shape, {}};
  for (size_t k = 0; k < x.at.size(); ++k)
    result.at.push_back(x.at[k].decided() && y.at[k].decided() ? row.f(in, x.at[k], y.at[k]) : undecided());
  return result;
}

bool draw(const Binary& row, Maker& m, Step& s) {
  const int a = m.some();
  const Array first = m.value(a);
  if (row.is_operator && std::string_view(row.symbol) != "<<" && std::string_view(row.symbol) != ">>" &&
      m.chance(30)) {
    s.in = {a};
    const bool whole_number = row.takes == bits || m.chance(50);
    s.ints = {1 + static_cast<int64_t>(m.below(2)), whole_number};
    const double least = is_unsigned(first.dtype) && whole_number ? 0 : -5;
    static const double kOthers[] = {0.1, 3, 41, 61, 255, 1.0 / 3, 0.5, -0.25, 7, 1e-3};
    s.reals = {m.chance(50) ? least + static_cast<double>(m.below(11)) : kOthers[m.below(10)]};
    if (whole_number) s.reals[0] = std::trunc(s.reals[0]);
    // What an integer dtype does not hold is an error: tests/unit/arguments_test.cpp.
    if (whole_number && first.dtype == DType::I8) s.reals[0] = std::min(s.reals[0], 127.0);
    return row.takes(promoted(first.dtype, number_array(s, first.dtype).dtype)) && row.takes(first.dtype);
  }
  int b = m.beside(first.shape, first.dtype);
  s.in = m.chance(50) ? std::vector<int>{a, b} : std::vector<int>{b, a};
  return row.takes(promoted(first.dtype, m.value(b).dtype));
}

std::string text(const Binary& row, const Step& s, const Texts& x) {
  std::string a = x[0], b = x.size() > 1 ? x[1] : "";
  if (!s.ints.empty()) {
    const std::string n =
        s.ints[1] ? fmt::format("{}", static_cast<int64_t>(s.reals[0])) : real_text(s.reals[0]);
    if (s.ints[0] == 1)
      b = n;
    else
      b = a, a = n;
  }
  return row.is_operator ? fmt::format("{} {} {}", a, row.symbol, b)
                         : fmt::format("{}({}, {})", row.symbol, a, b);
}

void add_where(std::vector<Function>& rows) {
  rows.push_back(
      {"where", "binary",
       [](Maker& m, Step& s) {
         const int a = m.some();
         const Sizes shape = m.value(a).shape;
         const DType d = m.value(a).dtype;
         const int b = m.beside(shape, d);
         const auto condition =
             m.existing([&](const Array& c) { return c.dtype == DType::Bool && c.shape == shape; });
         s.in = {condition ? *condition : m.beside(shape, DType::Bool), a, b};
         return true;
       },
       [](const Step&, const Tensors& x) { return where(x[0], x[1], x[2]); },
       [](const Step&, const Arrays& x) {
         const DType d = promoted(x[1]->dtype, x[2]->dtype);
         const Sizes shape = broadcast(broadcast(x[0]->shape, x[1]->shape), x[2]->shape);
         const Array c = broadcast_array(cast_array(DType::Bool, *x[0]), shape);
         const Array a = broadcast_array(cast_array(d, *x[1]), shape),
                     b = broadcast_array(cast_array(d, *x[2]), shape);
         Array out{d, shape, {}};
         for (size_t k = 0; k < c.at.size(); ++k)
           out.at.push_back(!c.at[k].decided() ? undecided() : nonzero(c.at[k]) ? a.at[k] : b.at[k]);
         return out;
       },
       [](const Step&, const Texts& x) { return fmt::format("where({}, {}, {})", x[0], x[1], x[2]); }, 5,
       true});
  for (const bool both : {true, false})
    rows.push_back({both ? "logical_and" : "logical_or", "binary",
                    [](Maker& m, Step& s) {
                      const int a = m.some();
                      const Sizes shape = m.value(a).shape;
                      const DType d = m.value(a).dtype;
                      s.in = {a, m.beside(shape, d)};
                      return true;
                    },
                    [both](const Step&, const Tensors& x) {
                      return both ? logical_and(x[0], x[1]) : logical_or(x[0], x[1]);
                    },
                    [both](const Step&, const Arrays& x) {
                      const Binary row{
                          "",
                          "",
                          false,
                          any_dtype,
                          boolean,
                          both ? [](DType, Cell a, Cell b) { return truth(nonzero(a) && nonzero(b)); }
                               : [](DType, Cell a, Cell b) { return truth(nonzero(a) || nonzero(b)); }};
                      return reference(row, cast_array(DType::Bool, *x[0]), cast_array(DType::Bool, *x[1]));
                    },
                    [both](const Step&, const Texts& x) {
                      return fmt::format("{}({}, {})", both ? "logical_and" : "logical_or", x[0], x[1]);
                    },
                    1});
}

} // namespace

void add_binary(std::vector<Function>& rows) {
  for (const Binary& row : kBinary)
    rows.push_back({row.name, "binary", [&row](Maker& m, Step& s) { return draw(row, m, s); },
                    [&row](const Step& s, const Tensors& x) { return build(row, s, x); },
                    [&row](const Step& s, const Arrays& x) {
                      if (s.ints.empty()) return reference(row, *x[0], *x[1]);
                      const Array n = number_array(s, x[0]->dtype);
                      return s.ints[0] == 1 ? reference(row, *x[0], n) : reference(row, n, *x[0]);
                    },
                    [&row](const Step& s, const Texts& x) { return text(row, s, x); }, row.weight,
                    row.smooth});
  add_where(rows);
}

} // namespace lathe::net
