// Substitution, evaluation, and questions about the variables of an expression.
#include <algorithm>
#include <unordered_map>

#include <fmt/core.h>

#include "lathe/error.hpp"
#include "view/expr_node.hpp"
#include "view/size.hpp"

namespace lathe {
namespace {

bool has_any(const ExprNode* n, const std::vector<Expr>& vars) {
  return std::any_of(vars.begin(), vars.end(), [&](Expr v) { return depends_on(Expr(n), v); });
}

Expr apply(ExprKind kind, Expr a, Expr b) {
  switch (kind) {
  case ExprKind::FloorDiv: return floordiv(a, b);
  case ExprKind::Mod: return mod(a, b);
  case ExprKind::Min: return min(a, b);
  case ExprKind::Max: return max(a, b);
  case ExprKind::Lt: return lt(a, b);
  case ExprKind::Le: return le(a, b);
  case ExprKind::Eq: return eq(a, b);
  case ExprKind::And: return land(a, b);
  case ExprKind::Const:
  case ExprKind::Var:
  case ExprKind::Add:
  case ExprKind::Mul: break;
  }
  throw InternalError("apply() of an expression that is no binary operation");
}

int64_t apply(ExprKind kind, int64_t a, int64_t b) {
  switch (kind) {
  case ExprKind::FloorDiv:
  case ExprKind::Mod:
    if (b == 0) return 0; // of an axis without elements: nothing reads there
    return kind == ExprKind::Mod ? floor_remainder(a, b) : floor_quotient(a, b);
  case ExprKind::Min: return std::min(a, b);
  case ExprKind::Max: return std::max(a, b);
  case ExprKind::Lt: return a < b;
  case ExprKind::Le: return a <= b;
  case ExprKind::Eq: return a == b;
  case ExprKind::And: return a && b;
  case ExprKind::Const:
  case ExprKind::Var:
  case ExprKind::Add:
  case ExprKind::Mul: break;
  }
  throw InternalError("apply() of an expression that is no binary operation");
}

class Substituter {
public:
  explicit Substituter(const Substitution& vars) : vars_(vars) {}

  Expr operator()(const ExprNode* n) {
    if (!touched(n)) return Expr(n);
    if (n->kind == ExprKind::Var) return replacement(n);
    for (const auto& [from, to] : seen_)
      if (from == n) return to;
    Expr result;
    if (n->factors.size() == 1) {
      result = apply(n->kind, (*this)(n->lhs), (*this)(n->rhs));
    } else {
      Sum sum; // untouched terms stay as they are; a touched monomial is multiplied out again
      sum.constant = n->constant;
      for (const Term& t : n->terms) {
        if (!touched(t.monomial)) {
          sum.add(t);
          continue;
        }
        Expr product = (*this)(t.monomial->factors[0]);
        for (size_t i = 1; i < t.monomial->factors.size(); i++)
          product = product * (*this)(t.monomial->factors[i]);
        sum.add(product, t.coefficient);
      }
      result = sum.expr();
    }
    seen_.emplace_back(n, result);
    return result;
  }

private:
  bool touched(const ExprNode* n) const {
    for (const ExprNode* v : n->vars)
      for (const auto& [from, to] : vars_)
        if (from.node() == v) return true;
    return false;
  }
  Expr replacement(const ExprNode* v) const {
    for (const auto& [from, to] : vars_)
      if (from.node() == v) return to;
    return Expr(v);
  }

  const Substitution& vars_;
  std::vector<std::pair<const ExprNode*, Expr>> seen_;
};

class Evaluator {
public:
  explicit Evaluator(const std::function<int64_t(Expr)>& value_of) : value_of_(value_of) {}

  int64_t operator()(const ExprNode* n) {
    if (n->vars.empty() && n->kind == ExprKind::Const) return n->constant;
    if (n->kind == ExprKind::Var) return value_of_(Expr(n));
    if (n->factors.size() == 1) {
      for (const auto& [from, to] : seen_)
        if (from == n) return to;
      const int64_t a = (*this)(n->lhs), value = apply(n->kind, a, (*this)(n->rhs));
      seen_.emplace_back(n, value);
      return value;
    }
    auto result = static_cast<uint64_t>(n->constant); // intermediate results wrap, as in the compiled code
    for (const Term& t : n->terms) {
      auto product = static_cast<uint64_t>(t.coefficient);
      for (const ExprNode* f : t.monomial->factors) product *= static_cast<uint64_t>((*this)(f));
      result += product;
    }
    return static_cast<int64_t>(result);
  }

private:
  const std::function<int64_t(Expr)>& value_of_;
  std::vector<std::pair<const ExprNode*, int64_t>> seen_;
};

} // namespace

Expr substitute(Expr e, const Substitution& vars) { return Substituter(vars)(e.node()); }

int64_t evaluate(Expr e, const std::function<int64_t(Expr var)>& value_of) {
  return Evaluator(value_of)(e.node());
}

void collect_vars(Expr e, std::vector<Expr>& out) {
  for (const ExprNode* v : e.node()->vars)
    if (std::find(out.begin(), out.end(), Expr(v)) == out.end()) out.emplace_back(v);
}

bool depends_on(Expr e, Expr var) {
  const auto vars = e.node()->vars;
  return std::find(vars.begin(), vars.end(), var.node()) != vars.end();
}

std::optional<Expr> stride_of(Expr e, Expr var) {
  Expr stride = 0;
  for (const Term& t : e.node()->terms) {
    if (!depends_on(Expr(t.monomial), var)) continue;
    const ExprNode* others = divide_monomials(t.monomial, var.node());
    if (!others || depends_on(Expr(others), var)) { // not affine as written: subtract neighbouring values
      const Expr difference = substitute(e, {{var, var + Expr(1)}}) - e;
      if (depends_on(difference, var)) return std::nullopt;
      return difference;
    }
    stride = stride + Expr(others) * Expr(t.coefficient);
  }
  return stride;
}

std::pair<Expr, Expr> separate(Expr e, const std::vector<Expr>& vars) {
  const ExprNode* n = e.node();
  if (!has_any(n, vars)) return {e, Expr(0)};
  Sum first, second;
  first.constant = n->constant;
  for (const Term& t : n->terms) (has_any(t.monomial, vars) ? second : first).terms.push(t);
  return {first.expr(), second.expr()};
}

uint32_t written_size(Expr e) { return e.node()->written; }

bool is_too_long(const std::vector<Expr>& index, const std::vector<Expr>& guards) {
  uint64_t size = 0;
  for (const Expr e : index) size += written_size(e);
  for (const Expr e : guards) size += written_size(e);
  return size > kLongestIndex;
}

} // namespace lathe
