// The algebra of values as data: rows of pattern -> replacement, which make() applies to every node it
// builds.
//
// A pattern is an op applied to patterns. A lower-case letter stands for any value (the same letter, the same
// value), an upper-case letter for any constant, a number for a constant of exactly these bits (so "0" of a
// float is +0). The operands of commutative ops match in either order. A letter of a replacement that its
// pattern does not bind, an unknown op or a wrong number of operands does not compile.
#pragma once
#include <array>
#include <span>

#include "ast/ast.hpp"

namespace lathe::ast {

/// For which dtypes of the last operand a rule holds. Fusable: f32 and f64, which are not rounded after every
/// op.
enum class RuleClass : uint8_t { Any, Integer, Bool, Float, Fusable };

struct Term {
  enum Kind : uint8_t { Apply, Any, Constant, Literal } kind = Any;
  Op op = Op::Const;
  int8_t slot = 0;    // of Any and Constant: which binding
  int8_t literal = 0; // of Literal
  bool minus_zero = false;
  uint8_t size = 1; // terms of the subtree; operands follow their op
};

inline constexpr int kRuleSlots = 8;

/// One side of a rule, in prefix order.
struct Side {
  std::array<Term, 12> terms{};
  int count = 0;
};

struct Rule {
  RuleClass cls;
  const char* pattern;
  const char* replacement;
  bool (*when)(const Value& root); // null: always
  Side left, right;

  constexpr Rule(RuleClass c, const char* p, const char* r, bool (*w)(const Value&) = nullptr);
};

std::span<const Rule> value_rules();
bool rule_applies(RuleClass cls, DType dtype);

/// The replacement of the first rule that matches `root` (a value that need not be interned), or null.
ValueRef apply_value_rules(const Value& root);

namespace rule_text {

constexpr bool is_lower(char c) { return c >= 'a' && c <= 'z'; }
constexpr bool is_upper(char c) { return c >= 'A' && c <= 'Z'; }
constexpr bool is_digit(char c) { return c >= '0' && c <= '9'; }

struct OpRow {
  std::string_view name;
  Op op;
  int arity;
};
inline constexpr OpRow kOps[] = {
#define LATHE_OP(name, arity, kind, dtypes, c, meaning) {#name, Op::name, arity},
#include "core/ops.def"
};

/// Parses one term at text[at]; thrown literals are compile errors, since rules are constexpr.
constexpr void parse_term(std::string_view text, size_t& at, Side& side,
                          std::array<bool, 2 * kRuleSlots>& bound, bool binds) {
  const int self = side.count++;
  Term term;
  if (is_upper(text[at]) && at + 1 < text.size() && (is_lower(text[at + 1]) || is_upper(text[at + 1]))) {
    size_t end = at;
    while (end < text.size() && text[end] != '(') ++end;
    const OpRow* row = nullptr;
    for (const OpRow& candidate : kOps)
      if (candidate.name == text.substr(at, end - at)) row = &candidate;
    if (!row) throw "unknown op in a rule";
    term.kind = Term::Apply;
    term.op = row->op;
    at = end;
    for (int i = 0; i < row->arity; ++i) {
      if (text[at] != (i == 0 ? '(' : ',')) throw "wrong number of operands in a rule";
      at += i == 0 ? 1 : 2;
      parse_term(text, at, side, bound, binds);
    }
    if (text[at] != ')') throw "wrong number of operands in a rule";
    ++at;
  } else if (is_lower(text[at]) || is_upper(text[at])) {
    term.kind = is_lower(text[at]) ? Term::Any : Term::Constant;
    term.slot = static_cast<int8_t>(is_lower(text[at]) ? text[at] - 'a' : text[at] - 'A' + kRuleSlots);
    if (binds)
      bound[term.slot] = true;
    else if (!bound[term.slot])
      throw "unbound letter in a replacement";
    ++at;
  } else {
    term.kind = Term::Literal;
    const bool negative = text[at] == '-';
    if (negative) ++at;
    if (!is_digit(text[at])) throw "syntax of a rule";
    term.literal = static_cast<int8_t>(negative ? -(text[at] - '0') : text[at] - '0');
    term.minus_zero = negative && term.literal == 0;
    ++at;
  }
  term.size = static_cast<uint8_t>(side.count - self);
  side.terms[self] = term;
}

} // namespace rule_text

constexpr Rule::Rule(RuleClass c, const char* p, const char* r, bool (*w)(const Value&))
    : cls(c), pattern(p), replacement(r), when(w) {
  std::array<bool, 2 * kRuleSlots> bound{};
  size_t at = 0;
  rule_text::parse_term(p, at, left, bound, true);
  if (at != std::string_view(p).size() || left.terms[0].kind != Term::Apply) throw "syntax of a rule";
  at = 0;
  rule_text::parse_term(r, at, right, bound, false);
  if (at != std::string_view(r).size()) throw "syntax of a rule";
}

} // namespace lathe::ast
