// Printing expressions, and parsing what was printed back to the same node.
#include <ostream>

#include <fmt/core.h>

#include "core/scanner.hpp"
#include "view/expr_node.hpp"
#include "view/shape_variable.hpp"

namespace lathe {
namespace {

/// How tightly the outermost operator of a text binds, weakest first.
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
      : in_(fmt::format("expression '{}'", text), text), lookup_(lookup) {}

  Expr parse() {
    const Expr e = conjunction();
    if (!in_.at_end()) in_.fail("an operator or the end");
    return e;
  }

private:
  Expr conjunction() {
    Expr e = equality();
    while (in_.accept("&&")) e = land(e, equality());
    return e;
  }
  Expr equality() {
    Expr e = comparison();
    while (in_.accept("==")) e = eq(e, comparison());
    return e;
  }
  Expr comparison() {
    Expr e = sum();
    for (;;) {
      if (in_.accept("<="))
        e = le(e, sum());
      else if (in_.accept("<"))
        e = lt(e, sum());
      else
        return e;
    }
  }
  Expr sum() {
    Expr e = product();
    for (;;) {
      if (in_.accept("+"))
        e = e + product();
      else if (in_.accept("-"))
        e = e - product();
      else
        return e;
    }
  }
  Expr product() {
    Expr e = unary();
    for (;;) {
      if (in_.accept("*"))
        e = e * unary();
      else if (in_.accept("//"))
        e = floordiv(e, unary());
      else if (in_.accept("%"))
        e = mod(e, unary());
      else
        return e;
    }
  }
  Expr unary() {
    bool negative = false;
    while (in_.accept("-")) negative = !negative;
    if (is_digit(in_.peek())) return in_.number(negative);
    return negative ? -atom() : atom();
  }
  Expr atom() {
    if (in_.accept("(")) {
      Expr e = nested();
      in_.expect(")");
      return e;
    }
    in_.peek();
    const size_t begin = in_.at();
    const std::string_view name = in_.maybe_word();
    if (name.empty()) in_.fail("a number, a variable, min, max or '('");
    if ((name == "min" || name == "max") && in_.accept("(")) {
      const Expr a = nested();
      in_.expect(",");
      const Expr b = nested();
      in_.expect(")");
      return name == "min" ? min(a, b) : max(a, b);
    }
    if (auto e = lookup_(name)) return *e;
    in_.go_to(begin);
    in_.fail(fmt::format("a known variable in place of '{}'", name));
  }
  Expr nested() {
    if (++depth_ > 4 * kMaxDepth) in_.fail("less nesting");
    const Expr e = conjunction();
    depth_--;
    return e;
  }

  Scanner in_;
  const std::function<std::optional<Expr>(std::string_view)>& lookup_;
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

std::string bounds_text(Expr var) {
  const std::string typical = has_usual_value(var) ? "" : fmt::format(", {}", var.typical());
  return fmt::format("[{}, {}{}]", var.lo(), var.hi(), typical);
}

} // namespace lathe
