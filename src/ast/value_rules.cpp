#include "ast/value_rules.hpp"

#include <cmath>

namespace lathe::ast {
namespace {

using Match = RuleMatch<ValueTraits>;

/// Whether every value of `from` is a value of `to` of the same kind, so that a cast between them loses
/// nothing.
bool widens(DType from, DType to) {
  if (from == DType::Bool) return to != DType::Bool;
  if (is_float(from)) return is_float(to) && (from == to || size_of(to) > size_of(from));
  if (!is_integer(to)) return false;
  if (is_signed(from)) return is_signed(to) && size_of(to) >= size_of(from);
  return is_unsigned(to) ? size_of(to) >= size_of(from) : size_of(to) > size_of(from);
}

bool same_dtype(const ValueRef& root, const Match&) { return root->dtype == root->sources[0]->dtype; }

/// Cast(Cast(a)): the inner cast is exact. A float in between would saturate what an integer wraps.
bool inner_widens(const ValueRef& root, const Match& match) {
  return widens(match['a']->dtype, root->sources[0]->dtype);
}

/// f16 and bf16 are rounded after every op, so that only f32 and f64 may be fused. A product that other ops
/// read, too, is never fused.
bool fusable(const ValueRef& root, const Match& match) {
  if (root->dtype != DType::F32 && root->dtype != DType::F64) return false;
  const ValueRef& product = root->sources[0] == match['c'] ? root->sources[1] : root->sources[0];
  return !std::holds_alternative<Rounded>(product->attr);
}

bool is_minus_zero(const ValueRef&, const Match& match) {
  const double value = std::get<Scalar>(match['A']->attr).as_float();
  return value == 0 && std::signbit(value);
}

bool has_exact_inverse(const ValueRef&, const Match& match) {
  return lathe::has_exact_inverse(std::get<Scalar>(match['A']->attr));
}

using enum RuleDomain;

constexpr ValueRule kRules[] = {
    {"add-0", Integer, "Add(a, 0)", "a"},
    {"add-constants", Integer, "Add(Add(a, A), B)", "Add(a, Add(A, B))"},
    {"add-to-sub", Integer, "Add(Sub(a, b), b)", "a"},
    {"sub-self", Integer, "Sub(a, a)", "0"},
    {"sub-0", Integer, "Sub(a, 0)", "a"},
    {"sub-of-add", Integer, "Sub(Add(a, b), b)", "a"},
    {"neg-sub", Integer, "Neg(Sub(a, b))", "Sub(b, a)"},
    {"mul-0", Integer, "Mul(a, 0)", "0"},
    {"mul-constants", Integer, "Mul(Mul(a, A), B)", "Mul(a, Mul(A, B))"},
    {"idiv-1", Integer, "IDiv(a, 1)", "a"},
    {"mod-1", Integer, "Mod(a, 1)", "0"},
    {"max-constants", Integer, "Max(Max(a, A), B)", "Max(a, Max(A, B))"},
    {"shl-0", Integer, "Shl(a, 0)", "a"},
    {"shr-0", Integer, "Shr(a, 0)", "a"},
    {"ne-self", Integer, "CmpNe(a, a)", "0"},
    {"and-0", Integer, "And(a, 0)", "0"},
    {"and-ones", Integer, "And(a, -1)", "a"},
    {"and-self", Integer, "And(a, a)", "a"},
    {"or-0", Integer, "Or(a, 0)", "a"},
    {"or-ones", Integer, "Or(a, -1)", "-1"},
    {"or-self", Integer, "Or(a, a)", "a"},
    {"xor-0", Integer, "Xor(a, 0)", "a"},
    {"xor-self", Integer, "Xor(a, a)", "0"},

    {"and-false", Bool, "And(a, 0)", "0"},
    {"and-true", Bool, "And(a, 1)", "a"},
    {"and-same", Bool, "And(a, a)", "a"},
    {"or-false", Bool, "Or(a, 0)", "a"},
    {"or-true", Bool, "Or(a, 1)", "1"},
    {"or-same", Bool, "Or(a, a)", "a"},
    {"xor-false", Bool, "Xor(a, 0)", "a"},
    {"xor-same", Bool, "Xor(a, a)", "0"},
    {"not-not", Bool, "Xor(Xor(a, 1), 1)", "a"},
    {"ne-false", Bool, "CmpNe(a, 0)", "a"},
    {"ne-true", Bool, "CmpNe(a, 1)", "Xor(a, 1)"},
    {"ne-same", Bool, "CmpNe(a, a)", "0"},
    {"false-lt", Bool, "CmpLt(0, a)", "a"},
    {"max-of-bools", Bool, "Max(a, b)", "Or(a, b)"},
    {"where-true-false", Bool, "Where(a, 1, 0)", "a"},
    {"where-false-true", Bool, "Where(a, 0, 1)", "Xor(a, 1)"},

    // No rule of floats may change a result that is not a NaN, not even the sign of a zero; but for the three
    // that round once where the ops rounded twice.
    {"add-minus-0", Float, "Add(a, A)", "a", is_minus_zero},
    {"sub-plus-0", Float, "Sub(a, 0)", "a"},
    {"div-exact", Float, "Div(a, A)", "Mul(a, Div(1, A))", has_exact_inverse},
    {"mul-minus-1", Float, "Mul(a, -1)", "Neg(a)"},
    {"round-fma", Float, "Add(Mul(a, b), c)", "Fma(a, b, c)", fusable},
    {"round-fma-minus", Float, "Sub(Mul(a, b), c)", "Fma(a, b, Neg(c))", fusable},
    {"round-fma-from", Float, "Sub(c, Mul(a, b))", "Fma(Neg(a), b, c)", fusable},

    {"neg-neg", Any, "Neg(Neg(a))", "a"},
    {"add-neg", Any, "Add(a, Neg(b))", "Sub(a, b)"},
    {"sub-neg", Any, "Sub(a, Neg(b))", "Add(a, b)"},
    {"mul-1", Any, "Mul(a, 1)", "a"},
    {"mul-neg-constant", Any, "Mul(Neg(a), A)", "Mul(a, Neg(A))"},
    {"mul-neg", Any, "Mul(Neg(a), b)", "Neg(Mul(a, b))"},
    {"max-self", Any, "Max(a, a)", "a"},
    {"max-max", Any, "Max(Max(a, b), b)", "Max(a, b)"},
    {"lt-self", Any, "CmpLt(a, a)", "0"},
    {"where-true", Any, "Where(1, a, b)", "a"},
    {"where-false", Any, "Where(0, a, b)", "b"},
    {"where-same", Any, "Where(c, a, a)", "a"},
    {"where-not", Any, "Where(Xor(c, 1), a, b)", "Where(c, b, a)"},
    {"where-then-where", Any, "Where(c, Where(c, a, b), d)", "Where(c, a, d)"},
    {"where-else-where", Any, "Where(c, a, Where(c, b, d))", "Where(c, a, d)"},
    {"cast-to-same", Any, "Cast(a)", "a", same_dtype},
    {"cast-of-wider", Any, "Cast(Cast(a))", "Cast(a)", inner_widens},
    {"bitcast-to-same", Any, "Bitcast(a)", "a", same_dtype},
    {"bitcast-of-bitcast", Any, "Bitcast(Bitcast(a))", "Bitcast(a)"},
};

} // namespace

const RuleEngine<ValueTraits>& value_rules() {
  static const RuleEngine<ValueTraits> engine("value", kRules);
  return engine;
}

} // namespace lathe::ast
