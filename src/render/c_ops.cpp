#include "render/c_ops.hpp"

#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "core/coefficients.hpp"
#include "lathe/error.hpp"

namespace lathe::render {
namespace {

/// The op table's spelling with $0, $1, $2 replaced.
std::string spell(Op op, const std::vector<std::string>& args) {
  std::string out;
  const std::string_view pattern = info(op).c_spelling;
  if (pattern.empty()) throw InternalError(fmt::format("C renderer: {} has no spelling", to_string(op)));
  for (size_t i = 0; i < pattern.size(); ++i) {
    if (pattern[i] == '$')
      out += args.at(pattern[++i] - '0');
    else
      out += pattern[i];
  }
  return parens(out);
}

std::vector<std::string> texts(const std::vector<Operand>& args) {
  std::vector<std::string> out;
  for (const Operand& a : args) out.push_back(a.text);
  return out;
}

std::string float_literal(const Dialect& dialect, double value, bool is_double) {
  if (std::isnan(value)) return dialect.nan(is_double ? DType::F64 : DType::F32);
  if (std::isinf(value)) {
    const std::string text = dialect.infinity(is_double ? DType::F64 : DType::F32);
    return value < 0 ? fmt::format("(-{})", text) : text;
  }
  if (const auto name = coefficient_name(is_double ? DType::F64 : DType::F32, value))
    return name->starts_with('-') ? parens(*name) : *name;
  return digits(value, is_double);
}

bool is_number(const Operand& v) { return v.constant && !std::isnan(v.constant->as_float()); }

} // namespace

std::string digits(double value, bool is_double) {
  std::string text = is_double ? fmt::format("{}", value) : fmt::format("{}", static_cast<float>(value));
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  if (!is_double) text += "f";
  return std::signbit(value) ? parens(text) : text;
}

std::string literal(const Dialect& dialect, const Scalar& value) {
  const DType d = value.dtype();
  if (is_float(d)) return float_literal(dialect, value.as_float(), d == DType::F64);
  if (d == DType::U64) return fmt::format("{}{}", value.bits(), dialect.integer_suffix(d));
  if (d == DType::U32) return fmt::format("{}u", value.as_int());
  const int64_t v = value.as_int();
  const std::string suffix = d == DType::I64 ? dialect.integer_suffix(d) : "";
  // The most negative value has no literal of its own type.
  if (size_of(d) >= 4 && v == std::numeric_limits<int64_t>::min() >> (64 - 8 * size_of(d)))
    return fmt::format("({}{} - 1)", v + 1, suffix);
  return v < 0 ? fmt::format("({}{})", v, suffix) : fmt::format("{}{}", v, suffix);
}

bool OpPrinter::has_vector_form(const Dialect& dialect, Op op) {
  switch (op) {
  case Op::IDiv:
  case Op::Mod: return false;
  case Op::Sqrt:
  case Op::Trunc:
  case Op::Exp2:
  case Op::Log2:
  case Op::Sin:
  case Op::Cos: return dialect.has_vector_function(op);
  default: return is_elementwise(op);
  }
}

std::string OpPrinter::type_of(const Operand& value) const {
  if (value.dtype == DType::Bool && value.lanes > 1)
    return dialect_.type(signed_of(value.mask_bytes), value.lanes);
  return dialect_.type(value.dtype, value.lanes);
}

std::string OpPrinter::any(const Operand& value) const {
  return value.lanes == 1 ? value.text : dialect_.any(value.text, value.mask_bytes, value.lanes);
}

/// `value` as a name, so that code can use it more than once.
Operand OpPrinter::make_local(Operand value) const {
  if (value.text.find_first_of("([ ") == std::string::npos) return value;
  value.text = local_(type_of(value), value.text);
  return value;
}

Operand OpPrinter::widen(const Operand& value, int lanes, int mask_bytes) const {
  Operand out = value;
  out.lanes = lanes;
  if (value.dtype != DType::Bool || lanes == 1) {
    if (value.lanes != lanes) out.text = dialect_.splat(value.text, value.dtype, lanes);
    return out;
  }
  const DType mask = signed_of(mask_bytes);
  out.mask_bytes = mask_bytes;
  if (value.lanes != lanes)
    out.text = dialect_.splat(fmt::format("({})-{}", dialect_.type(mask, 1), value.text), mask, lanes);
  else if (value.mask_bytes != mask_bytes)
    out.text = dialect_.convert(value.text, signed_of(value.mask_bytes), mask, lanes);
  return out;
}

Operand OpPrinter::apply(Op op, DType result, std::vector<Operand> args) const {
  int lanes = 1;
  for (const Operand& a : args) lanes = std::max(lanes, a.lanes);
  return lanes == 1 ? scalar(op, result, args) : vector(op, result, args, lanes);
}

/// Neg, Add, Sub, Mul of integers, computed unsigned: signed overflow is undefined in C.
Operand OpPrinter::wrapping(Op op, DType result, const std::vector<Operand>& args, int lanes) const {
  const DType computed = unsigned_of(lanes == 1 ? std::max(size_of(result), 4) : size_of(result));
  std::vector<std::string> operands;
  for (const Operand& a : args)
    operands.push_back(result == computed ? a.text : dialect_.reinterpret(a.text, result, computed, lanes));
  std::string text = spell(op, operands);
  if (result != computed) text = dialect_.reinterpret(text, computed, result, lanes);
  return {text, result, lanes};
}

Operand OpPrinter::scalar(Op op, DType result, const std::vector<Operand>& args) const {
  const Operand& a = args[0];
  Operand out{"", result, 1};
  switch (op) {
  case Op::Cast: return scalar_cast(result, a);
  case Op::Bitcast:
    if (result == DType::Bool || a.dtype == DType::Bool) return scalar_cast(result, a);
    out.text = dialect_.reinterpret(a.text, a.dtype, result, 1);
    return out;
  case Op::CmpLt:
  case Op::CmpNe:
  case Op::Where: out.text = spell(op, texts(args)); return out;
  case Op::Max:
    if (is_float(result) && is_number(args[1])) return extreme(true, args[1], a); // returns a if a is NaN
    out.text = is_float(result)
                   ? fmt::format("({0} != {0} ? {0} : ({0} > {1} ? {0} : {1}))", a.text, args[1].text)
                   : fmt::format("({0} > {1} ? {0} : {1})", a.text, args[1].text);
    return out;
  case Op::And:
  case Op::Or:
  case Op::Xor: out.text = fmt::format("({}){}", dialect_.type(result, 1), spell(op, texts(args))); break;
  case Op::IDiv: out.text = fmt::format("{}({}, {})", helper("idiv", result), a.text, args[1].text); break;
  case Op::Mod:
    out.text =
        fmt::format("{}({}, {})", helper("mod", is_half(result) ? DType::F32 : result), a.text, args[1].text);
    break;
  case Op::Shl: out.text = fmt::format("{}({}, {})", helper("shl", result), a.text, args[1].text); break;
  case Op::Shr: out.text = fmt::format("{}({}, {})", helper("shr", result), a.text, args[1].text); break;
  case Op::Fma:
    out.text = dialect_.fma(a.text, args[1].text, args[2].text, is_half(result) ? DType::F32 : result, 1);
    break;
  case Op::Sqrt:
  case Op::Exp2:
  case Op::Log2:
  case Op::Sin:
  case Op::Cos:
  case Op::Trunc: out.text = dialect_.function(op, a.text, is_half(result) ? DType::F32 : result, 1); break;
  default: // Neg, Add, Sub, Mul, Div
    if (!is_float(result)) return wrapping(op, result, args, 1);
    out.text = spell(op, texts(args));
  }
  if (is_half(result)) out.text = fmt::format("{}({})", helper("round", result), out.text);
  return out;
}

/// Whether a cast to `half` by way of f32 would round twice. Integers to f16 do not: f32 holds those below
/// 2^24 exactly, and larger ones are infinite in f16.
bool OpPrinter::rounds_twice(DType half, DType from) {
  return from == DType::F64 || (half == DType::BF16 && is_integer(from) && size_of(from) >= 4);
}

/// A scalar as a float that rounds to the same `half` as the scalar itself.
std::string OpPrinter::odd_float(DType half, const Operand& from) const {
  return rounds_twice(half, from.dtype) ? fmt::format("{}({})", helper("odd", from.dtype), from.text)
                                        : fmt::format("(float){}", from.text);
}

Operand OpPrinter::unrounded(DType half, const Operand& from) const {
  if (from.lanes == 1) return {parens(odd_float(half, from)), DType::F32, 1};
  return rounds_twice(half, from.dtype) ? vector_odd_floats(from) : vector_cast(DType::F32, from);
}

Operand OpPrinter::scalar_cast(DType to, const Operand& from) const {
  Operand out{"", to, 1};
  if (to == from.dtype) return from;
  if (to == DType::Bool)
    out.text = fmt::format("({} != 0)", from.text);
  else if (is_half(to))
    out.text = fmt::format("{}({})", helper("round", to), odd_float(to, from));
  else if (is_float(to) || !is_float(from.dtype))
    out.text = fmt::format("(({}){})", dialect_.type(to, 1), from.text);
  else
    out.text =
        fmt::format("lathe_{}_to_{}({})", from.dtype == DType::F64 ? "f64" : "f32", to_string(to), from.text);
  return out;
}

Operand OpPrinter::vector(Op op, DType result, const std::vector<Operand>& scalars_too, int lanes) const {
  if (op == Op::Cast || op == Op::Bitcast) {
    const Operand& a = scalars_too[0];
    if (op == Op::Cast || result == DType::Bool || a.dtype == DType::Bool) return vector_cast(result, a);
    return {dialect_.reinterpret(a.text, a.dtype, result, lanes), result, lanes};
  }
  if ((op == Op::Shl || op == Op::Shr) && scalars_too[1].constant && scalars_too[0].lanes == lanes)
    return vector_shift(op, scalars_too[0], scalars_too[1]);
  const DType operand = scalars_too.back().dtype;
  if (is_half(operand)) { // compute as floats; round a result unless it is one of the operands
    std::vector<Operand> floats = scalars_too;
    for (Operand& a : floats)
      if (a.dtype == operand) a.dtype = DType::F32;
    if (!is_half(result)) return vector(op, result, floats, lanes);
    Operand out = vector(op, DType::F32, floats, lanes);
    if (op != Op::Max && op != Op::Where && op != Op::Neg) return rounded(out, result);
    out.dtype = result;
    return out;
  }
  if (operand == DType::Bool) return vector_bool(op, scalars_too, lanes);

  std::vector<Operand> args;
  for (const Operand& a : scalars_too) args.push_back(widen(a, lanes, size_of(operand)));
  const Operand& a = args[0];
  Operand out{"", result, lanes};
  const DType mask = signed_of(size_of(operand));
  switch (op) {
  case Op::CmpLt:
  case Op::CmpNe:
    out.mask_bytes = size_of(operand);
    out.text = dialect_.reinterpret(spell(op, texts(args)), mask, mask, lanes);
    out.comparison = {op, operand, args[0].text, args[1].text};
    return out;
  case Op::Where: {
    const Operand& condition = scalars_too[0];
    const auto& compared = condition.comparison;
    if (condition.lanes == 1)
      out.text = fmt::format("({} ? {} : {})", condition.text, args[1].text, args[2].text);
    else if (compared && size_of(compared->dtype) == size_of(result))
      out.text = dialect_.select_compared(compared->op, compared->dtype, compared->x, compared->y,
                                          args[1].text, args[2].text, result, lanes);
    else
      out.text = dialect_.select(a.text, args[1].text, args[2].text, result, lanes);
    return out;
  }
  case Op::Max: return vector_max(a, args[1]);
  case Op::And:
  case Op::Or:
  case Op::Xor: out.text = spell(op, texts(args)); return out;
  case Op::Shl:
  case Op::Shr: return vector_shift(op, a, args[1]);
  case Op::Fma: out.text = dialect_.fma(a.text, args[1].text, args[2].text, result, lanes); return out;
  case Op::Sqrt:
  case Op::Exp2:
  case Op::Log2:
  case Op::Sin:
  case Op::Cos:
  case Op::Trunc: out.text = dialect_.function(op, a.text, result, lanes); return out;
  default:
    if (!is_float(result)) return wrapping(op, result, args, lanes);
    out.text = spell(op, texts(args));
    return out;
  }
}

Operand OpPrinter::scale(const Operand& y, const Operand& n) const {
  const int lanes = std::max(y.lanes, n.lanes);
  return {dialect_.scale(widen(y, lanes, 0).text, widen(n, lanes, 0).text, lanes), y.dtype, lanes};
}

Operand OpPrinter::extreme(bool larger, const Operand& a, const Operand& b) const {
  const int lanes = std::max(a.lanes, b.lanes);
  const Operand x = make_local(widen(a, lanes, 0)), y = make_local(widen(b, lanes, 0));
  return {dialect_.extreme(larger, x.text, y.text, a.dtype, lanes), a.dtype, lanes};
}

/// The larger of a and b, which both have lanes; NaN if either is NaN.
Operand OpPrinter::vector_max(const Operand& a, const Operand& b) const {
  const DType d = a.dtype;
  if (is_float(d) && is_number(b)) return extreme(true, b, a); // returns a if a is NaN
  if (is_float(d) && is_number(a)) return extreme(true, a, b);
  const Operand x = make_local(a), y = make_local(b);
  return {dialect_.max(x.text, y.text, d, a.lanes), d, a.lanes};
}

/// An op on masks, in which true is -1.
Operand OpPrinter::vector_bool(Op op, const std::vector<Operand>& scalars_too, int lanes) const {
  int bytes = 0; // of the widest mask, which most likely comes from the data to be selected
  for (const Operand& a : scalars_too) bytes = std::max(bytes, a.mask_bytes);
  std::vector<std::string> m;
  for (const Operand& a : scalars_too) m.push_back(widen(a, lanes, bytes).text);
  Operand out{"", DType::Bool, lanes, bytes};
  switch (op) {
  case Op::And: out.text = fmt::format("({} & {})", m[0], m[1]); return out;
  case Op::Or:
  case Op::Max: out.text = fmt::format("({} | {})", m[0], m[1]); return out;
  case Op::Xor:
  case Op::CmpNe: out.text = fmt::format("({} ^ {})", m[0], m[1]); return out;
  case Op::CmpLt: out.text = fmt::format("(~{} & {})", m[0], m[1]); return out;
  case Op::Where: out.text = fmt::format("(({0} & {1}) | (~{0} & {2}))", m[0], m[1], m[2]); return out;
  default: throw InternalError(fmt::format("C renderer: {} of bool vectors", to_string(op)));
  }
}

/// `value` shifted by `count`. `value` has lanes; `count` is a constant or has lanes.
Operand OpPrinter::vector_shift(Op op, const Operand& value, const Operand& count) const {
  const DType d = value.dtype, u = unsigned_of(size_of(d));
  const int lanes = value.lanes, width = 8 * size_of(d);
  Operand out{"", d, lanes};
  const auto as = [&](const std::string& text, DType from, DType to) {
    return from == to ? text : dialect_.reinterpret(text, from, to, lanes);
  };
  if (count.constant) {
    const auto bits = static_cast<uint64_t>(count.constant->as_int());
    if (op == Op::Shr) {
      if (bits < static_cast<uint64_t>(width) || is_signed(d))
        out.text = fmt::format("({} >> {})", value.text, std::min<uint64_t>(bits, width - 1));
      else
        out.text = fmt::format("({0} ^ {0})", value.text);
    } else {
      out.text = bits < static_cast<uint64_t>(width)
                     ? as(fmt::format("({} << {})", as(value.text, d, u), bits), u, d)
                     : fmt::format("({0} ^ {0})", value.text);
    }
    return out;
  }
  const auto splat_u = [&](int v) {
    return dialect_.splat(literal(dialect_, Scalar::of_int(u, v)), u, lanes);
  };
  const DType mask = signed_of(size_of(d));
  const std::string bits = local_(dialect_.type(u, lanes), as(count.text, d, u));
  const std::string in_range =
      local_(dialect_.type(mask, lanes),
             dialect_.reinterpret(fmt::format("({} < {})", bits, splat_u(width)), mask, mask, lanes));
  if (op == Op::Shr && is_signed(d)) {
    const std::string kept =
        local_(dialect_.type(u, lanes), dialect_.select(in_range, bits, splat_u(width - 1), u, lanes));
    out.text = fmt::format("({} >> {})", value.text, as(kept, u, d));
    return out;
  }
  const std::string kept =
      local_(dialect_.type(u, lanes), fmt::format("({} & {})", bits, splat_u(width - 1)));
  const std::string shifted = local_(dialect_.type(u, lanes), fmt::format("({} {} {})", as(value.text, d, u),
                                                                          op == Op::Shl ? "<<" : ">>", kept));
  out.text = as(fmt::format("({} & {})", shifted, dialect_.reinterpret(in_range, mask, u, lanes)), u, d);
  return out;
}

/// A vector of floats, rounded to `half`.
Operand OpPrinter::rounded(const Operand& floats, DType half) const {
  const std::string text = make_local(floats).text;
  return {dialect_.lane_access()->half_rounded(text, half, floats.lanes), half, floats.lanes};
}

Operand OpPrinter::vector_cast(DType to, const Operand& from) const {
  const int lanes = from.lanes;
  if (to == from.dtype) return from;
  if (is_half(from.dtype)) {
    Operand floats = from;
    floats.dtype = DType::F32;
    return vector_cast(to, floats);
  }
  if (is_half(to)) {
    return rounded(unrounded(to, from), to);
  }
  Operand out{"", to, lanes};
  if (to == DType::Bool) {
    const DType mask = signed_of(size_of(from.dtype));
    out.mask_bytes = size_of(from.dtype);
    const std::string zero = dialect_.splat(literal(dialect_, Scalar::zero(from.dtype)), from.dtype, lanes);
    out.text = dialect_.reinterpret(fmt::format("({} != {})", from.text, zero), mask, mask, lanes);
    return out;
  }
  if (from.dtype == DType::Bool) { // -1 becomes 1
    const DType integer = signed_of(size_of(to));
    const Operand mask = widen(from, lanes, size_of(to));
    out.text = fmt::format("({} & {})", mask.text, dialect_.splat("1", integer, lanes));
    if (to != integer)
      out.text = is_float(to) ? dialect_.convert(out.text, integer, to, lanes)
                              : dialect_.reinterpret(out.text, integer, to, lanes);
    return out;
  }
  if (is_float(from.dtype) && !is_float(to)) return saturate(to, from);
  out.text = dialect_.convert(from.text, from.dtype, to, lanes);
  return out;
}

/// f64 and wide integers as floats. If no float equals the value, the result is the odd one of its two
/// neighbours. Rounding that to half precision gives the same result as rounding the value itself.
Operand OpPrinter::vector_odd_floats(const Operand& from) const {
  const int lanes = from.lanes;
  const Operand x = make_local(from);
  if (!is_float(
          from.dtype)) { // if the float can't hold all bits, the bit above the lowest ones replaces them
    const DType d = from.dtype, mask = signed_of(size_of(d));
    const int digits = size_of(d) == 4 ? 24 : 53, low = size_of(d) == 4 ? 8 : 11;
    const auto splat = [&](int64_t v) {
      return dialect_.splat(literal(dialect_, Scalar::of_int(d, v)), d, lanes);
    };
    const std::string size =
        is_signed(d) ? fmt::format("({0} ^ ({0} >> {1}))", x.text, 8 * size_of(d) - 1) : x.text;
    const std::string rest = fmt::format("({} & {})", x.text, splat((1 << low) - 1));
    const auto nonzero = [&](const std::string& v) {
      return dialect_.reinterpret(fmt::format("({} != {})", v, splat(0)), mask, mask, lanes);
    };
    const std::string odd = fmt::format("(({} & {}) | {})", x.text, splat(-(1 << low)), splat(1 << low));
    const std::string inexact =
        local_(dialect_.type(mask, lanes),
               fmt::format("({} & {})", nonzero(fmt::format("({} >> {})", size, digits)), nonzero(rest)));
    const Operand kept{dialect_.select(inexact, odd, x.text, d, lanes), d, lanes};
    return size_of(d) == 4 ? vector_cast(DType::F32, kept) : vector_odd_floats(vector_cast(DType::F64, kept));
  }
  const std::string near =
      local_(dialect_.type(DType::F32, lanes), dialect_.convert(x.text, DType::F64, DType::F32, lanes));
  const std::string back =
      local_(dialect_.type(DType::F64, lanes), dialect_.convert(near, DType::F32, DType::F64, lanes));
  const auto side = [&](const char* compare) { // a mask of 32-bit integers
    const std::string comparison =
        dialect_.reinterpret(fmt::format("({} {} {})", back, compare, x.text), DType::I64, DType::I64, lanes);
    const Operand mask{local_(dialect_.type(DType::I64, lanes), comparison), DType::Bool, lanes, 8};
    return widen(mask, lanes, 4).text;
  };
  const std::string type = dialect_.type(DType::I32, lanes);
  const std::string below = local_(type, side("<")), above = local_(type, side(">"));
  const std::string bits = local_(type, dialect_.reinterpret(near, DType::F32, DType::I32, lanes));
  const std::string sign = local_(type, fmt::format("({} >> 31)", bits));
  const std::string step = local_(type, fmt::format("((({} - {}) ^ {}) - {})", above, below, sign, sign));
  const std::string moved = local_(type, fmt::format("({0} + ({1} & (({0} & 1) - 1)))", bits, step));
  return {dialect_.reinterpret(moved, DType::I32, DType::F32, lanes), DType::F32, lanes};
}

/// Floats as integers, saturated. Lanes that are out of range or NaN become 0 before the conversion; those
/// out of range get the bound after it.
Operand OpPrinter::saturate(DType to, const Operand& from) const {
  const int lanes = from.lanes, value_bits = 8 * size_of(to) - (is_signed(to) ? 1 : 0);
  const double above = std::ldexp(1.0, value_bits), least = is_signed(to) ? -above : 0;
  const DType f = from.dtype, mask = signed_of(size_of(f)), wide = signed_of(size_of(to));
  const auto float_splat = [&](double v) {
    return dialect_.splat(literal(dialect_, Scalar::of_float(f, v)), f, lanes);
  };
  const auto mask_local = [&](const std::string& comparison) {
    return local_(dialect_.type(mask, lanes), dialect_.reinterpret(comparison, mask, mask, lanes));
  };
  const Operand x = make_local(from);
  const std::string high = mask_local(fmt::format("({} >= {})", x.text, float_splat(above)));
  const std::string low = mask_local(fmt::format("({} < {})", x.text, float_splat(least)));
  const std::string kept = mask_local(fmt::format("(({0} == {0}) & ~({1} | {2}))", x.text, high, low));
  const std::string bits = dialect_.reinterpret(x.text, f, mask, lanes);
  const std::string in_range = local_(
      dialect_.type(f, lanes), dialect_.reinterpret(fmt::format("({} & {})", bits, kept), mask, f, lanes));
  const std::string converted = local_(dialect_.type(to, lanes), dialect_.convert(in_range, f, to, lanes));
  const auto widen_mask = [&](const std::string& m) {
    return widen({m, DType::Bool, lanes, size_of(f)}, lanes, size_of(wide)).text;
  };
  const auto bound = [&](int64_t v) {
    return dialect_.splat(literal(dialect_, Scalar::of_int(to, v)), to, lanes);
  };
  const auto greatest = static_cast<int64_t>((uint64_t{1} << (value_bits - 1)) * 2 - 1);
  const std::string high_wide = local_(dialect_.type(wide, lanes), widen_mask(high));
  std::string text = dialect_.select(high_wide, bound(greatest), converted, to, lanes);
  if (is_signed(to)) {
    const std::string low_wide = local_(dialect_.type(wide, lanes), widen_mask(low));
    const std::string upper = local_(dialect_.type(to, lanes), text);
    text = dialect_.select(low_wide, bound(-greatest - 1), upper, to, lanes);
  }
  return {text, to, lanes};
}

} // namespace lathe::render
