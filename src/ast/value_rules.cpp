#include "ast/value_rules.hpp"

namespace lathe::ast {
namespace {

/// Whether every value of `from` is a value of `to` of the same kind, so that a cast between them loses
/// nothing.
bool widens(DType from, DType to) {
  if (from == DType::Bool) return to != DType::Bool;
  if (is_float(from)) return is_float(to) && (from == to || size_of(to) > size_of(from));
  if (!is_integer(to)) return false;
  if (is_signed(from)) return is_signed(to) && size_of(to) >= size_of(from);
  return is_unsigned(to) ? size_of(to) >= size_of(from) : size_of(to) > size_of(from);
}

bool same_dtype(const Value& root) { return root.dtype == root.sources[0]->dtype; }

/// Cast(Cast(a)): the inner cast is exact. A float in between would saturate what an integer wraps.
bool inner_cast_widens(const Value& root) {
  const Value& inner = *root.sources[0];
  return widens(inner.sources[0]->dtype, inner.dtype);
}

using enum RuleClass;

constexpr Rule kIntegerRules[] = {
    {Integer, "Add(a, 0)", "a"},
    {Integer, "Add(Add(a, A), B)", "Add(a, Add(A, B))"},
    {Integer, "Add(Sub(a, b), b)", "a"},
    {Integer, "Sub(a, a)", "0"},
    {Integer, "Sub(a, 0)", "a"},
    {Integer, "Sub(Add(a, b), b)", "a"},
    {Integer, "Neg(Sub(a, b))", "Sub(b, a)"},
    {Integer, "Mul(a, 0)", "0"},
    {Integer, "Mul(Mul(a, A), B)", "Mul(a, Mul(A, B))"},
    {Integer, "IDiv(a, 1)", "a"},
    {Integer, "Mod(a, 1)", "0"},
    {Integer, "Max(Max(a, A), B)", "Max(a, Max(A, B))"},
    {Integer, "Shl(a, 0)", "a"},
    {Integer, "Shr(a, 0)", "a"},
    {Integer, "CmpNe(a, a)", "0"},
    {Integer, "And(a, 0)", "0"},
    {Integer, "And(a, -1)", "a"},
    {Integer, "And(a, a)", "a"},
    {Integer, "Or(a, 0)", "a"},
    {Integer, "Or(a, -1)", "-1"},
    {Integer, "Or(a, a)", "a"},
    {Integer, "Xor(a, 0)", "a"},
    {Integer, "Xor(a, a)", "0"},
};

constexpr Rule kBoolRules[] = {
    {Bool, "And(a, 0)", "0"},
    {Bool, "And(a, 1)", "a"},
    {Bool, "And(a, a)", "a"},
    {Bool, "Or(a, 0)", "a"},
    {Bool, "Or(a, 1)", "1"},
    {Bool, "Or(a, a)", "a"},
    {Bool, "Xor(a, 0)", "a"},
    {Bool, "Xor(a, a)", "0"},
    {Bool, "Xor(Xor(a, 1), 1)", "a"},
    {Bool, "CmpNe(a, 0)", "a"},
    {Bool, "CmpNe(a, 1)", "Xor(a, 1)"},
    {Bool, "CmpNe(a, a)", "0"},
    {Bool, "CmpLt(0, a)", "a"},
    {Bool, "Max(a, b)", "Or(a, b)"},
    {Bool, "Where(a, 1, 0)", "a"},
    {Bool, "Where(a, 0, 1)", "Xor(a, 1)"},
};

// No rule here may change a result that is not a NaN, not even the sign of a zero; but for the last table,
// which rounds once where the ops rounded twice.
constexpr Rule kFloatRules[] = {
    {Float, "Add(a, -0)", "a"},      {Float, "Sub(a, 0)", "a"},       {Float, "Div(a, 1)", "a"},
    {Float, "Mul(a, -1)", "Neg(a)"}, {Float, "Div(a, -1)", "Neg(a)"},
};

constexpr Rule kRoundingRules[] = {
    {Float, "Mul(a, Recip(b))", "Div(a, b)"},
    {Fusable, "Add(Mul(a, b), c)", "Fma(a, b, c)"},
    {Fusable, "Sub(Mul(a, b), c)", "Fma(a, b, Neg(c))"},
    {Fusable, "Sub(c, Mul(a, b))", "Fma(Neg(a), b, c)"},
};

constexpr Rule kAnyRules[] = {
    {Any, "Neg(Neg(a))", "a"},
    {Any, "Add(a, Neg(b))", "Sub(a, b)"},
    {Any, "Sub(a, Neg(b))", "Add(a, b)"},
    {Any, "Mul(a, 1)", "a"},
    {Any, "Mul(Neg(a), A)", "Mul(a, Neg(A))"},
    {Any, "Mul(Neg(a), b)", "Neg(Mul(a, b))"},
    {Any, "Max(a, a)", "a"},
    {Any, "Max(Max(a, b), a)", "Max(a, b)"},
    {Any, "Max(Max(a, b), b)", "Max(a, b)"},
    {Any, "CmpLt(a, a)", "0"},
    {Any, "Where(1, a, b)", "a"},
    {Any, "Where(0, a, b)", "b"},
    {Any, "Where(c, a, a)", "a"},
    {Any, "Where(Xor(c, 1), a, b)", "Where(c, b, a)"},
    {Any, "Where(c, Where(c, a, b), d)", "Where(c, a, d)"},
    {Any, "Where(c, a, Where(c, b, d))", "Where(c, a, d)"},
    {Any, "Cast(a)", "a", same_dtype},
    {Any, "Cast(Cast(a))", "Cast(a)", inner_cast_widens},
    {Any, "Bitcast(a)", "a", same_dtype},
    {Any, "Bitcast(Bitcast(a))", "Bitcast(a)"},
};

constexpr std::span<const Rule> kTables[] = {kIntegerRules, kBoolRules, kFloatRules, kRoundingRules,
                                             kAnyRules};

struct RuleIndex {
  std::vector<Rule> rules;
  std::vector<const Rule*> by_root[256];
  RuleIndex() {
    for (auto table : kTables) rules.insert(rules.end(), table.begin(), table.end());
    for (const Rule& rule : rules) by_root[static_cast<int>(rule.left.terms[0].op)].push_back(&rule);
  }
};
const RuleIndex& rule_index() {
  static const RuleIndex index;
  return index;
}

bool commutes(Op op) {
  switch (op) {
  case Op::Add:
  case Op::Mul:
  case Op::Max:
  case Op::And:
  case Op::Or:
  case Op::Xor:
  case Op::CmpNe: return true;
  default: return false;
  }
}

Scalar literal(const Term& term, DType dtype) {
  return term.minus_zero ? Scalar::of_float(dtype, -0.0) : Scalar::of_int(dtype, term.literal);
}

using Bindings = std::array<const ValueRef*, 2 * kRuleSlots>;

bool match_operands(const Side& side, int at, const Value& value, Bindings& bound);

bool match(const Side& side, int at, const ValueRef& value, Bindings& bound) {
  const Term& term = side.terms[at];
  switch (term.kind) {
  case Term::Constant:
    if (value->op != Op::Const) return false;
    [[fallthrough]];
  case Term::Any:
    if (!bound[term.slot]) bound[term.slot] = &value;
    return *bound[term.slot] == value;
  case Term::Literal:
    if (value->op != Op::Const) return false;
    if (term.minus_zero && !is_float(value->dtype)) return false;
    return std::get<Scalar>(value->attr) == literal(term, value->dtype);
  case Term::Apply: return value->op == term.op && match_operands(side, at, *value, bound);
  }
  return false;
}

bool match_operands(const Side& side, int at, const Value& value, Bindings& bound) {
  const int first = at + 1;
  const Bindings before = bound;
  int operand = first;
  bool all = true;
  for (size_t i = 0; all && i < value.sources.size(); ++i) {
    all = match(side, operand, value.sources[i], bound);
    operand += side.terms[operand].size;
  }
  if (all || !commutes(value.op)) return all;
  bound = before;
  const int second = first + side.terms[first].size;
  return match(side, first, value.sources[1], bound) && match(side, second, value.sources[0], bound);
}

ValueRef build(const Side& side, int at, const Bindings& bound, DType dtype) {
  const Term& term = side.terms[at];
  switch (term.kind) {
  case Term::Any:
  case Term::Constant: return *bound[term.slot];
  case Term::Literal: return constant(literal(term, dtype));
  case Term::Apply: break;
  }
  std::vector<ValueRef> sources;
  for (int operand = at + 1; operand < at + term.size; operand += side.terms[operand].size)
    sources.push_back(build(side, operand, bound, dtype));
  const bool converts = term.op == Op::Cast || term.op == Op::Bitcast;
  const DType result = converts ? dtype : result_dtype(term.op, sources.back()->dtype);
  return make(term.op, result, std::move(sources));
}

} // namespace

std::span<const Rule> value_rules() { return rule_index().rules; }

bool rule_applies(RuleClass cls, DType dtype) {
  switch (cls) {
  case RuleClass::Any: return true;
  case RuleClass::Integer: return is_integer(dtype);
  case RuleClass::Bool: return dtype == DType::Bool;
  case RuleClass::Float: return is_float(dtype);
  case RuleClass::Fusable: return dtype == DType::F32 || dtype == DType::F64;
  }
  return false;
}

ValueRef apply_value_rules(const Value& root) {
  for (const Rule* rule : rule_index().by_root[static_cast<int>(root.op)]) {
    if (!rule_applies(rule->cls, root.sources.back()->dtype)) continue;
    Bindings bound{};
    if (!match_operands(rule->left, 0, root, bound)) continue;
    if (rule->when && !rule->when(root)) continue;
    return build(rule->right, 0, bound, root.dtype);
  }
  return {};
}

} // namespace lathe::ast
