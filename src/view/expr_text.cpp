// Printing expressions, and parsing what was printed back to the same node.
#include <cctype>
#include <ostream>

#include <fmt/core.h>

#include "lathe/error.hpp"
#include "view/expr_node.hpp"

namespace lathe {
namespace {

/// How tightly a text holds together, weakest first.
enum Level { kAnd, kEqual, kLess, kSum, kProduct, kAtom };

Level level_of(Expr e) {
  switch (e.kind()) {
  case ExprKind::And: return kAnd;
  case ExprKind::Eq: return kEqual;
  case ExprKind::Lt:
  case ExprKind::Le: return kLess;
  case ExprKind::Add: return kSum;
  case ExprKind::Mul:
  case ExprKind::FloorDiv:
  case ExprKind::Mod: return kProduct;
  case ExprKind::Const: return e.value() < 0 ? kSum : kAtom;
  case ExprKind::Var:
  case ExprKind::Min:
  case ExprKind::Max: return kAtom;
  }
  return kAtom;
}

void print(std::string& out, Expr e);

void print_in(std::string& out, Expr e, Level needed) {
  const bool bare = level_of(e) >= needed;
  if (!bare) out += '(';
  print(out, e);
  if (!bare) out += ')';
}

void print_product(std::string& out, const ExprNode* monomial, uint64_t coefficient) {
  bool first = true;
  for (const ExprNode* f : monomial->factors) {
    if (!first) out += '*';
    first = false;
    print_in(out, Expr(f), kAtom);
  }
  if (coefficient != 1) out += fmt::format("*{}", coefficient);
}

uint64_t magnitude(int64_t v) { return v < 0 ? -static_cast<uint64_t>(v) : static_cast<uint64_t>(v); }

/// Positive terms before negative ones, so that 127 - o*32 reads as it should.
void print_sum(std::string& out, const ExprNode* n) {
  bool empty = true;
  auto sign = [&](bool negative) {
    out += empty ? (negative ? "-" : "") : (negative ? " - " : " + ");
    empty = false;
  };
  auto constant = [&] {
    sign(n->constant < 0);
    out += fmt::format("{}", magnitude(n->constant));
  };
  for (const Term& t : n->terms) {
    if (t.coefficient < 0) continue;
    sign(false);
    print_product(out, t.monomial, magnitude(t.coefficient));
  }
  const bool constant_first = empty && n->constant > 0;
  if (constant_first) constant();
  for (const Term& t : n->terms) {
    if (t.coefficient > 0) continue;
    sign(true);
    print_product(out, t.monomial, magnitude(t.coefficient));
  }
  if (!constant_first && n->constant != 0) constant();
}

void print(std::string& out, Expr e) {
  const ExprNode* n = e.node();
  auto infix = [&](const char* op, Level left, Level right) {
    print_in(out, e.lhs(), left);
    out += op;
    print_in(out, e.rhs(), right);
  };
  auto call = [&](const char* name) {
    out += name;
    print(out, e.lhs());
    out += ", ";
    print(out, e.rhs());
    out += ')';
  };
  switch (e.kind()) {
  case ExprKind::Const: out += fmt::format("{}", n->constant); return;
  case ExprKind::Var: out += *n->name; return;
  case ExprKind::Add:
  case ExprKind::Mul: print_sum(out, n); return;
  case ExprKind::FloorDiv: infix(" // ", kAtom, kAtom); return;
  case ExprKind::Mod: infix(" % ", kAtom, kAtom); return;
  case ExprKind::Min: call("min("); return;
  case ExprKind::Max: call("max("); return;
  case ExprKind::Lt: infix(" < ", kSum, kSum); return;
  case ExprKind::Le: infix(" <= ", kSum, kSum); return;
  case ExprKind::Eq: infix(" == ", kLess, kLess); return;
  case ExprKind::And: infix(" && ", kAnd, kEqual); return;
  }
}

class Parser {
public:
  Parser(std::string_view text, const std::function<std::optional<Expr>(std::string_view)>& lookup)
      : text_(text), lookup_(lookup) {}

  Expr parse() {
    const Expr e = conjunction();
    skip_space();
    if (at_ != text_.size()) fail("an operator or the end");
    return e;
  }

private:
  [[noreturn]] void fail(const std::string& expected) {
    throw Error(ErrorKind::Syntax,
                fmt::format("expression '{}': column {}: expected {}", text_, at_ + 1, expected));
  }
  void skip_space() {
    while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_]))) at_++;
  }
  bool take(std::string_view token) {
    skip_space();
    if (text_.substr(at_, token.size()) != token) return false;
    at_ += token.size();
    return true;
  }
  void need(std::string_view token) {
    if (!take(token)) fail(fmt::format("'{}'", token));
  }

  Expr conjunction() {
    Expr e = equality();
    while (take("&&")) e = land(e, equality());
    return e;
  }
  Expr equality() {
    Expr e = comparison();
    while (take("==")) e = eq(e, comparison());
    return e;
  }
  Expr comparison() {
    Expr e = sum();
    for (;;) {
      if (take("<="))
        e = le(e, sum());
      else if (take("<"))
        e = lt(e, sum());
      else
        return e;
    }
  }
  Expr sum() {
    Expr e = product();
    for (;;) {
      if (take("+"))
        e = e + product();
      else if (take("-"))
        e = e - product();
      else
        return e;
    }
  }
  Expr product() {
    Expr e = unary();
    for (;;) {
      if (take("*"))
        e = e * unary();
      else if (take("//"))
        e = floordiv(e, unary());
      else if (take("%"))
        e = mod(e, unary());
      else
        return e;
    }
  }
  Expr unary() {
    bool negative = false;
    while (take("-")) negative = !negative;
    skip_space();
    if (at_ < text_.size() && std::isdigit(static_cast<unsigned char>(text_[at_]))) return literal(negative);
    return negative ? -atom() : atom();
  }
  Expr literal(bool negative) {
    int64_t value = 0; // built up below zero, where there is room for the least value
    for (; at_ < text_.size() && std::isdigit(static_cast<unsigned char>(text_[at_])); at_++)
      if (__builtin_mul_overflow(value, 10, &value) ||
          __builtin_sub_overflow(value, text_[at_] - '0', &value))
        fail("a number that fits in 64 bits");
    if (!negative && value == kLeast) fail("a number that fits in 64 bits");
    return negative ? value : -value;
  }
  Expr atom() {
    if (take("(")) {
      Expr e = nested();
      need(")");
      return e;
    }
    const size_t begin = at_;
    // Loops have dots in their names: "t3.i0".
    while (at_ < text_.size() &&
           (std::isalnum(static_cast<unsigned char>(text_[at_])) || text_[at_] == '_' || text_[at_] == '.'))
      at_++;
    const std::string_view name = text_.substr(begin, at_ - begin);
    if (name.empty()) fail("a number, a variable, min, max or '('");
    if ((name == "min" || name == "max") && take("(")) {
      const Expr a = nested();
      need(",");
      const Expr b = nested();
      need(")");
      return name == "min" ? min(a, b) : max(a, b);
    }
    if (auto e = lookup_(name)) return *e;
    at_ = begin;
    fail(fmt::format("a known variable in place of '{}'", name));
  }
  Expr nested() {
    if (++depth_ > 4 * kMaxDepth) fail("less nesting");
    const Expr e = conjunction();
    depth_--;
    return e;
  }

  std::string_view text_;
  const std::function<std::optional<Expr>(std::string_view)>& lookup_;
  size_t at_ = 0;
  int depth_ = 0;
};

} // namespace

std::string to_string(Expr e) {
  std::string out;
  print(out, e);
  return out;
}

Expr parse_expr(std::string_view text, const std::function<std::optional<Expr>(std::string_view)>& lookup) {
  return Parser(text, lookup).parse();
}

std::ostream& operator<<(std::ostream& out, Expr e) { return out << to_string(e); }

} // namespace lathe
