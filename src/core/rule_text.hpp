// Rewrite rules as text that the C++ compiler checks: "Add(a, Neg(a))" -> "0".
//
// A pattern is an op of the table applied to patterns. A lower-case letter stands for any node (the same
// letter, the same node), an upper-case letter for any constant, a number for the constant of exactly these
// bits ("0" of a float is +0). The operands of commutative ops match in either order. A letter that only the
// replacement has, an unknown op and a wrong number of operands do not compile.
#pragma once
#include <array>
#include <span>
#include <string_view>

#include "core/op.hpp"

namespace lathe {

constexpr bool is_commutative(Op op) {
  switch (op) {
  case Op::Add:
  case Op::Mul:
  case Op::Max:
  case Op::CmpNe:
  case Op::And:
  case Op::Or:
  case Op::Xor: return true;
  default: return false;
  }
}

/// The slot of a letter's binding: lower-case letters come first.
inline constexpr int kLetterCount = 52;
constexpr uint8_t letter_slot(char c) { return static_cast<uint8_t>(c >= 'a' ? c - 'a' : c - 'A' + 26); }

/// One term of a pattern. Terms are in prefix order: the operands of an Apply follow it.
struct RuleTerm {
  enum Kind : uint8_t { Apply, Any, Constant, Number } kind = Any;
  Op op = Op::Const;
  uint8_t arity = 0;
  uint8_t letter = 0; // of Any and Constant: see letter_slot
  uint8_t end = 0;    // one past the last term of this subtree
  int64_t number = 0;
};

struct RuleSide {
  static constexpr int kMostTerms = 16;
  std::array<RuleTerm, kMostTerms> terms{};
  int count = 0;
  uint64_t letters = 0; // a bit for each letter in the text
};

namespace rule_text {

constexpr bool is_lower(char c) { return c >= 'a' && c <= 'z'; }
constexpr bool is_upper(char c) { return c >= 'A' && c <= 'Z'; }
constexpr bool is_digit(char c) { return c >= '0' && c <= '9'; }

struct OpName {
  std::string_view name;
  Op op;
  int arity;
};
inline constexpr OpName kOpNames[] = {
#define LATHE_OP(name, arity, kind, dtypes, c, meaning) {#name, Op::name, arity},
#include "core/ops.def"
};

// No throw below runs: in a constant expression, a throw stops the compiler.
struct Reader {
  std::string_view text;
  RuleSide& side;
  size_t at = 0;

  constexpr char peek() const { return at < text.size() ? text[at] : '\0'; }
  constexpr void skip_space() {
    while (peek() == ' ') at++;
  }
  constexpr void take(char c) {
    skip_space();
    if (peek() != c) throw "a rule lacks a comma or a parenthesis";
    at++;
  }

  constexpr void term() {
    skip_space();
    if (side.count == RuleSide::kMostTerms) throw "a rule is too long";
    const int self = side.count++;
    RuleTerm t;
    const bool word =
        is_upper(peek()) && at + 1 < text.size() && (is_lower(text[at + 1]) || is_upper(text[at + 1]));
    if (word) {
      t = apply();
    } else if (is_lower(peek()) || is_upper(peek())) {
      t.kind = is_lower(peek()) ? RuleTerm::Any : RuleTerm::Constant;
      t.letter = letter_slot(peek());
      side.letters |= uint64_t{1} << t.letter;
      at++;
    } else {
      t.kind = RuleTerm::Number;
      const bool negative = peek() == '-';
      if (negative) at++;
      if (!is_digit(peek())) throw "a rule has a character that begins no term";
      for (; is_digit(peek()); at++) t.number = t.number * 10 + (peek() - '0');
      if (negative) t.number = -t.number;
    }
    t.end = static_cast<uint8_t>(side.count);
    side.terms[static_cast<size_t>(self)] = t;
  }

  constexpr RuleTerm apply() {
    const size_t begin = at;
    while (is_lower(peek()) || is_upper(peek()) || is_digit(peek())) at++;
    RuleTerm t;
    t.kind = RuleTerm::Apply;
    int arity = -1;
    for (const OpName& row : kOpNames)
      if (row.name == text.substr(begin, at - begin)) t.op = row.op, arity = row.arity;
    if (arity < 1) throw "a rule names an op that is unknown or has no operands";
    t.arity = static_cast<uint8_t>(arity);
    take('(');
    for (int i = 0; i < arity; i++) {
      if (i) take(',');
      term();
    }
    take(')');
    return t;
  }
};

constexpr RuleSide read(std::string_view text) {
  RuleSide side;
  Reader reader{text, side};
  reader.term();
  reader.skip_space();
  if (reader.at != text.size()) throw "a rule goes on after its end";
  return side;
}

} // namespace rule_text

/// The dtypes (of the root's last operand) for which a rule holds.
enum class RuleDomain : uint8_t { Any, Integer, Bool, Float };

constexpr bool in_domain(RuleDomain domain, DType dtype) {
  switch (domain) {
  case RuleDomain::Any: return true;
  case RuleDomain::Integer: return is_integer(dtype);
  case RuleDomain::Bool: return dtype == DType::Bool;
  case RuleDomain::Float: return is_float(dtype);
  }
  return false;
}

/// The value of a side for numbers: letter c stands for values[letter_slot(c)]. For the tests of rules.
Scalar evaluate(const RuleSide& side, std::span<const Scalar> values, DType number_dtype);

} // namespace lathe
