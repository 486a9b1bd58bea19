// Min, Max, comparisons and And.
#include <algorithm>
#include <numeric>

#include "view/expr_node.hpp"

namespace lathe {
namespace {

/// The arms of nested minima (or maxima), or the conjuncts of Ands, in order and without doubles.
void flatten(ExprKind kind, Expr e, std::vector<Expr>& out) {
  while (e.kind() == kind) {
    flatten(kind, Expr(e.node()->rhs), out);
    e = Expr(e.node()->lhs);
  }
  if (std::find(out.begin(), out.end(), e) == out.end()) out.push_back(e);
}

Expr join(ExprKind kind, std::vector<Expr>& parts) {
  std::sort(parts.begin(), parts.end(), [](Expr a, Expr b) { return compare(a.node(), b.node()) < 0; });
  Expr result = parts[0];
  for (size_t i = 1; i < parts.size(); i++)
    result = Expr(intern_binary(kind, result.node(), parts[i].node()));
  return result;
}

/// Removes every part that `covers(kept, part)` makes superfluous.
template <class Covers> void drop_covered(std::vector<Expr>& parts, Covers&& covers) {
  for (size_t i = 0; i < parts.size(); i++)
    for (size_t j = 0; j < parts.size(); j++) {
      if (i == j || !covers(parts[j], parts[i])) continue;
      parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(i--));
      break;
    }
}

Expr extreme(ExprKind kind, Expr a, Expr b) {
  if (a == b) return a;
  const bool is_min = kind == ExprKind::Min;
  if (a.hi() <= b.lo()) return is_min ? a : b;
  if (b.hi() <= a.lo()) return is_min ? b : a;
  if (compare(a.node(), b.node()) > 0) std::swap(a, b);
  if (const ExprNode* known = recall(kind, a.node(), b.node())) return Expr(known);
  std::vector<Expr> parts;
  flatten(kind, a, parts);
  flatten(kind, b, parts);
  drop_covered(parts,
               [&](Expr kept, Expr part) { return is_min ? proves_le(kept, part) : proves_le(part, kept); });
  const Expr result = join(kind, parts);
  remember(kind, a.node(), b.node(), result.node());
  return result;
}

/// The sum of the terms of d that have this sign, divided by g; negative terms are negated.
Expr side(Expr d, bool positive, int64_t g) {
  Sum sum;
  for (const Term& t : d.node()->terms)
    if ((t.coefficient > 0) == positive)
      sum.terms.push({t.monomial, (positive ? t.coefficient : -t.coefficient) / g});
  return sum.expr();
}

int64_t common_divisor(Expr d) {
  int64_t g = 0;
  for (const Term& t : d.node()->terms) g = std::gcd(g, t.coefficient);
  return g;
}

/// Whether a implies b, because they are equal or because both are an Lt over the same terms.
bool implies(Expr a, Expr b) {
  if (a == b) return true;
  if (a.kind() != ExprKind::Lt || b.kind() != ExprKind::Lt) return false;
  const Expr looser = (b.lhs() - b.rhs()) - (a.lhs() - a.rhs());
  return looser.is_const() && looser.value() <= 0;
}

} // namespace

Expr min(Expr a, Expr b) { return extreme(ExprKind::Min, a, b); }
Expr max(Expr a, Expr b) { return extreme(ExprKind::Max, a, b); }

// Written with all terms of positive sign, as i + j < n + 5, so that equal conditions are equal nodes.
Expr lt(Expr a, Expr b) {
  if (a.hi() < b.lo()) return 1;
  if (a.lo() >= b.hi()) return 0;
  if (const ExprNode* known = recall(ExprKind::Lt, a.node(), b.node())) return Expr(known);
  const Expr d = a - b;
  Expr result;
  if (proves_nonpositive(d + Expr(1))) {
    result = 1;
  } else if (proves_nonpositive(-d)) {
    result = 0;
  } else {
    const int64_t g = common_divisor(d);
    // d = g*t + c < 0  <=>  t < ceil(-c / g)
    const Expr bound(-floor_quotient(d.node()->constant, g));
    const Expr left = side(d, true, g), right = side(d, false, g);
    const bool constant_left = left.is_const(0);
    result = Expr(intern_binary(ExprKind::Lt, (constant_left ? -bound : left).node(),
                                (constant_left ? right : right + bound).node()));
  }
  remember(ExprKind::Lt, a.node(), b.node(), result.node());
  return result;
}

Expr le(Expr a, Expr b) { return lt(a, b + Expr(1)); }

Expr eq(Expr a, Expr b) {
  if (a == b) return 1;
  if (a.hi() < b.lo() || b.hi() < a.lo()) return 0;
  if (const ExprNode* known = recall(ExprKind::Eq, a.node(), b.node())) return Expr(known);
  Expr d = a - b, result;
  if (!d.is_const() && d.node()->terms[0].coefficient < 0) d = -d;
  const int64_t g = common_divisor(d);
  if (d.is_const()) {
    result = d.is_const(0) ? 1 : 0;
  } else if (d.node()->constant % g != 0 || proves_nonpositive(d + Expr(1)) ||
             proves_nonpositive(Expr(1) - d)) {
    result = 0;
  } else {
    const Expr bound(-(d.node()->constant / g));
    result = Expr(intern_binary(ExprKind::Eq, side(d, true, g).node(), (side(d, false, g) + bound).node()));
  }
  remember(ExprKind::Eq, a.node(), b.node(), result.node());
  return result;
}

Expr land(Expr a, Expr b) {
  if (a.is_const()) return a.value() ? b : a;
  if (b.is_const()) return b.value() ? a : b;
  if (a == b) return a;
  if (const ExprNode* known = recall(ExprKind::And, a.node(), b.node())) return Expr(known);
  std::vector<Expr> parts;
  flatten(ExprKind::And, a, parts);
  flatten(ExprKind::And, b, parts);
  drop_covered(parts, implies);
  const Expr result = join(ExprKind::And, parts);
  remember(ExprKind::And, a.node(), b.node(), result.node());
  return result;
}

} // namespace lathe
