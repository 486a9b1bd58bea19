// Floor division and remainder by a positive divisor. Floor rounds down, so for a = q*b + r the quotient is
// q + r // b and the remainder is r % b.
#include <algorithm>
#include <numeric>

#include <fmt/core.h>

#include "lathe/error.hpp"
#include "view/expr_node.hpp"

namespace lathe {
namespace {

Division split_by_const(Expr a, int64_t b) {
  Sum quotient, rest;
  const ExprNode* n = a.node();
  quotient.constant = floor_quotient(n->constant, b);
  rest.constant = floor_remainder(n->constant, b);
  for (const Term& t : n->terms) {
    if (t.coefficient / b) quotient.terms.push({t.monomial, t.coefficient / b});
    if (t.coefficient % b) rest.terms.push({t.monomial, t.coefficient % b});
  }
  return {quotient.expr(), rest.expr()};
}

size_t part_count(Expr e) { return e.node()->terms.size() + (e.node()->constant != 0); }

/// Long division of sums: takes multiples of b out of a for as long as that makes a shorter.
Division split_by_sum(Expr a, Expr b) {
  const Term lead = b.node()->terms[0];
  Expr quotient = 0, rest = a;
  for (bool again = true; again;) {
    again = false;
    for (const Term& t : rest.node()->terms) {
      if (t.coefficient % lead.coefficient != 0) continue;
      const ExprNode* m = divide_monomials(t.monomial, lead.monomial);
      if (!m) continue;
      const Expr part = Expr(m) * Expr(t.coefficient / lead.coefficient), left = rest - part * b;
      if (part_count(left) >= part_count(rest)) continue;
      quotient = quotient + part;
      rest = left;
      again = true;
      break;
    }
  }
  return {quotient, rest};
}

/// The k with k*b <= r < (k + 1)*b for all values of the variables; nothing if none is found.
std::optional<int64_t> constant_quotient(Expr r, Expr b) {
  if (b.is_const()) {
    if (r.lo() != kLeast && r.hi() != kMost) {
      const int64_t least = floor_quotient(r.lo(), b.value()), most = floor_quotient(r.hi(), b.value());
      if (least == most) return least;
    }
  } else if (r.is_const(0)) {
    return 0;
  }
  if (r.is_const() && b.is_const()) return std::nullopt;
  // The bounds of r do not decide if extents are symbolic. Only the two usual answers, 0 and -1, are tried.
  if (r.hi() >= 0 && proves_nonpositive(-r) && proves_lt(r, b)) return 0;
  if (r.lo() < 0 && proves_lt(r, 0) && proves_le(-b, r)) return -1;
  return std::nullopt;
}

/// Collects the divisors g of b to try for a = g*D + R, where R lies within one multiple of g.
void collect_radices(Expr a, Expr b, std::vector<Expr>& out) {
  if (part_count(b) != 1) return;
  const int64_t b_coefficient = b.is_const() ? b.value() : b.node()->terms[0].coefficient;
  const ExprNode* b_monomial = b.is_const() ? intern_const(1) : b.node()->terms[0].monomial;
  std::vector<int64_t> numbers{b_coefficient};
  for (const Term& t : a.node()->terms) numbers.push_back(std::gcd(t.coefficient, b_coefficient));
  std::sort(numbers.begin(), numbers.end(), std::greater<>());
  numbers.erase(std::unique(numbers.begin(), numbers.end()), numbers.end());
  const size_t count = std::min<size_t>(b_monomial->factors.size(), 3);
  for (size_t subset = size_t{1} << count; subset-- > 0;) {
    Expr g = 1;
    for (size_t i = 0; i < count; i++)
      if (subset >> i & 1) g = g * Expr(b_monomial->factors[i]);
    for (int64_t number : numbers) {
      const Expr radix = g * Expr(number);
      if (!radix.is_const(1) && radix != b) out.push_back(radix);
    }
  }
}

struct MixedRadix {
  Expr radix, high, low;
}; // a = radix*high + low, 0 <= low < radix

std::optional<MixedRadix> find_radix(Expr a, Expr b) {
  std::vector<Expr> radices;
  collect_radices(a, b, radices);
  for (Expr g : radices) {
    auto [high, low] = split_multiple(a, g);
    if (high.is_const()) continue;
    if (auto k = constant_quotient(low, g)) return MixedRadix{g, high + Expr(*k), low - g * Expr(*k)};
  }
  return std::nullopt;
}

/// The factor f if the expression is f plus a constant, else null.
const ExprNode* single_atom(Expr e) {
  const auto& terms = e.node()->terms;
  return terms.size() == 1 && terms[0].coefficient == 1 && terms[0].monomial->factors.size() == 1
             ? terms[0].monomial
             : nullptr;
}

void require_divisor(Expr a, Expr b, const char* op) {
  if (b.is_const(0))
    throw Error(ErrorKind::Value,
                fmt::format("{} {} 0: division by zero, expected a divisor other than 0", to_string(a), op));
}

/// Bounds don't tell that of a product of sizes, such as (h - 2) * (w - 2). Multiples of such a divisor are
/// taken out of what it divides all the same, whatever its sign: the other identities need it to be positive.
bool is_surely_positive(Expr b) { return b.lo() >= 0; }

Expr divide_rest(Expr r, Expr b) {
  if (!is_surely_positive(b)) return Expr(intern_binary(ExprKind::FloorDiv, r.node(), b.node()));
  if (auto radix = find_radix(r, b)) return floordiv(radix->high, *divide_exactly(b, radix->radix));
  if (const ExprNode* atom = single_atom(r)) {
    const Expr shift(r.node()->constant), x(atom->kind == ExprKind::Var ? atom : atom->lhs.load());
    switch (atom->kind) {
    case ExprKind::FloorDiv: { // (x // c + s) // b  ->  (x + s*c) // (c*b)
      const Expr c(atom->rhs);
      int64_t product;
      if (c.lo() < 0 ||
          (c.is_const() && b.is_const() && __builtin_mul_overflow(c.value(), b.value(), &product)))
        break;
      return floordiv(x + shift * c, c * b);
    }
    case ExprKind::Mod: { // (x % c) // b  ->  (x // b) % (c / b)
      const Expr c(atom->rhs);
      if (!shift.is_const(0) || c.lo() < 0) break;
      if (auto ratio = divide_exactly(c, b)) return mod(floordiv(x, b), *ratio);
      break;
    }
    case ExprKind::Min:
    case ExprKind::Max: { // floor division by a positive number keeps order
      const Expr y(atom->rhs);
      const Expr p = floordiv(x + shift, b), q = floordiv(y + shift, b);
      if (p.is_const() || q.is_const()) return atom->kind == ExprKind::Min ? min(p, q) : max(p, q);
      break;
    }
    default: break;
    }
  }
  return Expr(intern_binary(ExprKind::FloorDiv, r.node(), b.node()));
}

/// a with c*x in place of each c*(x % m) for which b divides m. This does not change the remainder of a by b.
Expr drop_inner_mods(Expr a, Expr b) {
  if (!a.node()->has_mod) return a;
  Expr result = a;
  for (bool again = true; again;) {
    again = false;
    for (const Term& t : result.node()->terms) {
      for (const ExprNode* f : t.monomial->factors) {
        if (f->kind != ExprKind::Mod || Expr(f->rhs).lo() < 0 || !divide_exactly(Expr(f->rhs), b)) continue;
        const Expr others = Expr(divide_monomials(t.monomial, f)) * Expr(t.coefficient);
        result = result + others * (Expr(f->lhs) - Expr(f));
        again = true;
        break;
      }
      if (again) break;
    }
  }
  return result;
}

Expr remainder_of(Expr a, Expr b) {
  const Expr r = split_multiple(drop_inner_mods(split_multiple(a, b).rest, b), b).rest;
  if (auto k = constant_quotient(r, b)) return r - b * Expr(*k);
  if (!is_surely_positive(b)) return Expr(intern_binary(ExprKind::Mod, r.node(), b.node()));
  if (auto radix = find_radix(r, b))
    return radix->radix * mod(radix->high, *divide_exactly(b, radix->radix)) + radix->low;
  return Expr(intern_binary(ExprKind::Mod, r.node(), b.node()));
}

} // namespace

Division split_multiple(Expr a, Expr b) {
  return b.is_const() ? split_by_const(a, b.value()) : split_by_sum(a, b);
}

std::optional<Expr> divide_exactly(Expr a, Expr b) {
  const Division d = split_multiple(a, b);
  if (!d.rest.is_const(0)) return std::nullopt;
  return d.quotient;
}

Expr floordiv(Expr a, Expr b) {
  require_divisor(a, b, "//");
  if (b.is_const(1)) return a;
  if (a.is_const() && b.is_const()) {
    if (b.is_const(-1)) return -a;
    return floor_quotient(a.value(), b.value());
  }
  if (b.is_const() && b.value() < 0 && b.value() != kLeast) return floordiv(-a, -b);
  if (const ExprNode* known = recall(ExprKind::FloorDiv, a.node(), b.node())) return Expr(known);
  auto [quotient, rest] = split_multiple(a, b);
  const auto k = constant_quotient(rest, b);
  const Expr result = quotient + (k ? Expr(*k) : divide_rest(rest, b));
  remember(ExprKind::FloorDiv, a.node(), b.node(), result.node());
  return result;
}

Expr mod(Expr a, Expr b) {
  require_divisor(a, b, "%");
  if (b.is_const(1)) return 0;
  if (a.is_const() && b.is_const()) return floor_remainder(a.value(), b.value());
  if (b.is_const() && b.value() < 0 && b.value() != kLeast) return -mod(-a, -b);
  if (const ExprNode* known = recall(ExprKind::Mod, a.node(), b.node())) return Expr(known);
  const Expr result = remainder_of(a, b);
  remember(ExprKind::Mod, a.node(), b.node(), result.node());
  return result;
}

Expr ceildiv(Expr a, Expr b) { return floordiv(a + b - Expr(1), b); }

} // namespace lathe
