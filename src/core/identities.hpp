// The identities of the op table, which hold for any DAG of its ops: the graph and the loop AST both apply
// them, beside rules of their own.
//
// Every rule keeps each value to the bit (a NaN stays some NaN). Identities that would not are left out:
// x - x is NaN for an infinity, x + 0 turns -0 into +0, x * 0 hides NaN, 1 / (1 / x) rounds twice.
// Rules with a constant A call the other operand x, so that no rule has both a and A.
#pragma once
#include <array>
#include <cmath>
#include <utility>

#include "core/float_format.hpp"
#include "core/rules.hpp"

namespace lathe {
namespace identities {

template <class Traits> using Match = RuleMatch<Traits>;

template <class Traits> bool is_minus_zero(const typename Traits::Node&, const Match<Traits>& m) {
  const double value = Traits::constant(m['A'])->as_float();
  return value == 0 && std::signbit(value);
}

template <class Traits> bool has_exact_inverse(const typename Traits::Node&, const Match<Traits>& m) {
  return lathe::has_exact_inverse(*Traits::constant(m['A']));
}

/// Whether every value of `from` is one of `to`.
inline bool is_exact(DType from, DType to) {
  if (from == to || from == DType::Bool) return true;
  if (to == DType::Bool) return false;
  const int bits = size_of(from) * 8 - is_signed(from);
  if (is_float(from)) return is_float(to) && (to == DType::F64 || (to == DType::F32 && size_of(from) == 2));
  if (is_float(to)) return bits <= digits(to);
  return bits <= size_of(to) * 8 - is_signed(to) && (is_unsigned(from) || is_signed(to));
}

/// Whether Cast(Cast(a)) goes through a dtype that holds every value of a's. Integer -> float -> integer is
/// left out unless the result holds every value, too: a float saturates where an integer wraps.
template <class Traits> bool inner_cast_is_exact(const typename Traits::Node& root, const Match<Traits>& m) {
  const DType from = Traits::dtype(m['a']), through = Traits::dtype(Traits::source(root, 0)),
              to = Traits::dtype(root);
  if (!is_exact(from, through)) return false;
  return !(is_integer(from) && is_float(through) && is_integer(to)) || is_exact(from, to);
}

/// Whether all dtypes are integers and the inner cast keeps all bits that the outer one keeps.
template <class Traits>
bool inner_cast_keeps_low_bits(const typename Traits::Node& root, const Match<Traits>& m) {
  const DType through = Traits::dtype(Traits::source(root, 0)), to = Traits::dtype(root);
  return is_integer(Traits::dtype(m['a'])) && is_integer(through) && is_integer(to) &&
         size_of(through) >= size_of(to);
}

} // namespace identities

template <class Traits>
inline constexpr Rule<Traits> kIdentities[] = {
    {"add-zero", RuleDomain::Integer, "Add(a, 0)", "a"},
    {"add-constants", RuleDomain::Integer, "Add(Add(x, A), B)", "Add(x, Add(A, B))"},
    {"mul-zero", RuleDomain::Integer, "Mul(a, 0)", "0"},
    {"mul-constants", RuleDomain::Integer, "Mul(Mul(x, A), B)", "Mul(x, Mul(A, B))"},
    {"max-constants", RuleDomain::Integer, "Max(Max(x, A), B)", "Max(x, Max(A, B))"},
    {"idiv-one", RuleDomain::Integer, "IDiv(a, 1)", "a"},
    {"mod-one", RuleDomain::Integer, "Mod(a, 1)", "0"},
    {"shl-zero", RuleDomain::Integer, "Shl(a, 0)", "a"},
    {"shr-zero", RuleDomain::Integer, "Shr(a, 0)", "a"},
    {"ne-self", RuleDomain::Integer, "CmpNe(a, a)", "0"},
    {"and-zero", RuleDomain::Integer, "And(a, 0)", "0"},
    {"and-ones", RuleDomain::Integer, "And(a, -1)", "a"},
    {"and-self", RuleDomain::Integer, "And(a, a)", "a"},
    {"or-zero", RuleDomain::Integer, "Or(a, 0)", "a"},
    {"or-ones", RuleDomain::Integer, "Or(a, -1)", "-1"},
    {"or-self", RuleDomain::Integer, "Or(a, a)", "a"},
    {"xor-zero", RuleDomain::Integer, "Xor(a, 0)", "a"},
    {"xor-self", RuleDomain::Integer, "Xor(a, a)", "0"},

    {"and-false", RuleDomain::Bool, "And(a, 0)", "0"},
    {"and-true", RuleDomain::Bool, "And(a, 1)", "a"},
    {"and-same", RuleDomain::Bool, "And(a, a)", "a"},
    {"or-false", RuleDomain::Bool, "Or(a, 0)", "a"},
    {"or-true", RuleDomain::Bool, "Or(a, 1)", "1"},
    {"or-same", RuleDomain::Bool, "Or(a, a)", "a"},
    {"xor-false", RuleDomain::Bool, "Xor(a, 0)", "a"},
    {"xor-same", RuleDomain::Bool, "Xor(a, a)", "0"},
    {"not-not", RuleDomain::Bool, "Xor(Xor(a, 1), 1)", "a"},
    {"ne-false", RuleDomain::Bool, "CmpNe(a, 0)", "a"},
    {"ne-same", RuleDomain::Bool, "CmpNe(a, a)", "0"},
    {"where-as-bool", RuleDomain::Bool, "Where(c, 1, 0)", "c"},

    {"add-minus-zero", RuleDomain::Float, "Add(x, A)", "x", &identities::is_minus_zero<Traits>},
    {"div-exact", RuleDomain::Float, "Div(x, A)", "Mul(x, Div(1, A))",
     &identities::has_exact_inverse<Traits>},

    {"neg-neg", RuleDomain::Any, "Neg(Neg(a))", "a"},
    {"mul-one", RuleDomain::Any, "Mul(a, 1)", "a"},
    {"mul-neg-constant", RuleDomain::Any, "Mul(Neg(x), A)", "Mul(x, Neg(A))"},
    {"max-self", RuleDomain::Any, "Max(a, a)", "a"},
    {"lt-self", RuleDomain::Any, "CmpLt(a, a)", "0"},
    {"where-true", RuleDomain::Any, "Where(1, a, b)", "a"},
    {"where-false", RuleDomain::Any, "Where(0, a, b)", "b"},
    {"where-same", RuleDomain::Any, "Where(c, a, a)", "a"},
    {"where-not", RuleDomain::Any, "Where(Xor(c, 1), a, b)", "Where(c, b, a)"},
    {"where-inside-true", RuleDomain::Any, "Where(c, Where(c, a, b), d)", "Where(c, a, d)"},
    {"where-inside-false", RuleDomain::Any, "Where(c, a, Where(c, b, d))", "Where(c, a, d)"},
    {"cast-exact", RuleDomain::Any, "Cast(Cast(a))", "Cast(a)", &identities::inner_cast_is_exact<Traits>},
    {"cast-low-bits", RuleDomain::Any, "Cast(Cast(a))", "Cast(a)",
     &identities::inner_cast_keeps_low_bits<Traits>},
    {"bitcast-bitcast", RuleDomain::Any, "Bitcast(Bitcast(a))", "Bitcast(a)"},
};

/// The identities, then the rules of one DAG.
template <class Traits, size_t N> constexpr auto with_identities(const Rule<Traits> (&own)[N]) {
  constexpr size_t kShared = std::size(kIdentities<Traits>);
  return [&]<size_t... I>(std::index_sequence<I...>) {
    return std::array<Rule<Traits>, kShared + N>{
        (I < kShared ? kIdentities<Traits>[I < kShared ? I : 0] : own[I < kShared ? 0 : I - kShared])...};
  }(std::make_index_sequence<kShared + N>());
}

} // namespace lathe
