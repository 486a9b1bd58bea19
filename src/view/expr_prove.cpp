// The prover: is a difference never positive, whatever the variables are?
//
// If the bounds of the difference d do not decide, the prover replaces d by a simpler expression that is at
// least as large, until the bounds decide. It replaces a minimum by one of its arms, the innermost loop
// variable by its extent - 1 or by 0, according to its sign in d, and a quotient or remainder by its bound.
// So i < n follows from i's extent min(32, n - o*32), whatever n and o are. Every step is sound, "no" means
// that no proof was found, and the number of steps is bounded. The node of d keeps the answer.
//
// If facts f <= 0 are given, d - m*f for a positive m is at least as large as d. A minimum or maximum has to
// be taken apart before facts about one of its arms are of use.
#include <algorithm>

#include "lathe/error.hpp"
#include "view/expr_node.hpp"
#include "view/prove.hpp"

namespace lathe {
namespace {

constexpr int kSteps = 96;
constexpr int kStepsWithFacts = 256;
constexpr int kFacts = 2; // facts that one proof may use

enum class Trend { Constant, Up, Down, Unknown };

Trend flip(Trend t) { return t == Trend::Up ? Trend::Down : t == Trend::Down ? Trend::Up : t; }

Trend both(Trend a, Trend b) {
  if (a == Trend::Constant || a == b) return b;
  return b == Trend::Constant ? a : Trend::Unknown;
}

Trend trend_of(Expr e, Expr var);

/// How a monomial moves as var grows.
Trend trend_of_monomial(const ExprNode* m, Expr var) {
  Trend trend = Trend::Constant;
  const ExprNode* moving = nullptr;
  bool negative = false;
  for (const ExprNode* f : m->factors) {
    if (depends_on(Expr(f), var)) {
      if (moving) return Trend::Unknown;
      moving = f;
      trend = trend_of(Expr(f), var);
    } else if (f->hi <= 0) {
      negative = !negative;
    } else if (f->lo < 0) {
      return Trend::Unknown;
    }
  }
  return negative ? flip(trend) : trend;
}

Trend trend_of(Expr e, Expr var) {
  if (e == var) return Trend::Up;
  if (!depends_on(e, var)) return Trend::Constant;
  const ExprNode* n = e.node();
  switch (n->kind) {
  case ExprKind::Add:
  case ExprKind::Mul: {
    Trend trend = Trend::Constant;
    for (const Term& t : n->terms) {
      const Trend one = trend_of_monomial(t.monomial, var);
      trend = both(trend, t.coefficient < 0 ? flip(one) : one);
    }
    return trend;
  }
  case ExprKind::FloorDiv: {
    const Expr divisor(n->rhs);
    return depends_on(divisor, var) || divisor.lo() < 0 ? Trend::Unknown : trend_of(Expr(n->lhs), var);
  }
  case ExprKind::Min:
  case ExprKind::Max: return both(trend_of(Expr(n->lhs), var), trend_of(Expr(n->rhs), var));
  default: return Trend::Unknown;
  }
}

Expr replace(Expr d, const Term& t, Expr by) { return d + (by - Expr(t.monomial)) * Expr(t.coefficient); }

/// Whether `proved` says yes to d with its first minimum or maximum replaced by an arm. One arm is enough if
/// d is the smaller of the two results; both are needed if d is the larger. Nothing if d has no such term.
template <class F> std::optional<bool> by_arms(Expr d, const F& proved) {
  for (const Term& t : d.node()->terms) {
    if (t.monomial->factors.size() != 1) continue;
    const ExprNode* atom = t.monomial;
    if (atom->kind != ExprKind::Min && atom->kind != ExprKind::Max) continue;
    const bool either = (atom->kind == ExprKind::Min) == (t.coefficient > 0);
    const bool first = proved(replace(d, t, Expr(atom->lhs)));
    if (first == either) return first;
    return proved(replace(d, t, Expr(atom->rhs)));
  }
  return {};
}

class Prover {
public:
  bool prove(Expr d) {
    if (d.hi() <= 0) return true;
    if (d.lo() > 0 || steps_-- <= 0) return false;
    const ExprNode* n = d.node();
    if (const auto proved = by_arms(d, [&](Expr arm) { return prove(arm); })) return *proved;
    std::vector<Expr> vars;
    collect_vars(d, vars);
    std::vector<std::pair<int, Expr>> order;
    for (Expr v : vars) order.emplace_back(v.node()->nesting, v);
    std::stable_sort(order.begin(), order.end(),
                     [](const auto& a, const auto& b) { return a.first > b.first; });
    for (auto [level, v] : order)
      if (auto larger = at_extreme(d, v)) return prove(*larger);
    for (const Term& t : n->terms)
      if (auto larger = relax(d, t)) return prove(*larger);
    return false;
  }

private:
  /// d with var at the end of its range where d is largest.
  static std::optional<Expr> at_extreme(Expr d, Expr var) {
    Expr slope = 0;
    Trend trend = Trend::Constant;
    for (const Term& t : d.node()->terms) {
      const ExprNode* others = divide_monomials(t.monomial, var.node());
      if (others && !depends_on(Expr(others), var)) {
        slope = slope + Expr(others) * Expr(t.coefficient);
      } else {
        const Trend one = trend_of_monomial(t.monomial, var);
        trend = both(trend, t.coefficient < 0 ? flip(one) : one);
      }
    }
    if (!slope.is_const(0))
      trend = both(trend, slope.lo() >= 0 ? Trend::Up : slope.hi() <= 0 ? Trend::Down : Trend::Unknown);
    if (trend == Trend::Unknown || trend == Trend::Constant) return std::nullopt;
    if (trend == Trend::Down) return substitute(d, {{var, Expr(var.lo())}});
    if (auto extent = var.extent()) return substitute(d, {{var, *extent - Expr(1)}});
    if (var.hi() == kMost) return std::nullopt;
    return substitute(d, {{var, Expr(var.hi())}});
  }

  /// d with the quotient or remainder of term t replaced by its bound; nothing if t has none.
  static std::optional<Expr> relax(Expr d, const Term& t) {
    const ExprNode* atom = t.monomial;
    if (atom->factors.size() > 1) return relax_product(d, t);
    if (atom->kind == ExprKind::Mod && atom->rhs.load()->lo >= 0)
      return replace(d, t, t.coefficient > 0 ? Expr(atom->rhs) - Expr(1) : Expr(0));
    if (atom->kind != ExprKind::FloorDiv || !Expr(atom->rhs).is_const()) return std::nullopt;
    const Expr x(atom->lhs), b(atom->rhs);
    if (b.value() > 0 && t.coefficient % b.value() == 0) { // b*(x // b) lies in (x - b, x]
      const Expr scale(t.coefficient / b.value());
      const Expr bound = t.coefficient > 0 ? x : x - b + Expr(1);
      return d - Expr(atom) * Expr(t.coefficient) + bound * scale;
    }
    const int64_t bound = t.coefficient > 0 ? atom->hi : atom->lo;
    if (bound == kLeast || bound == kMost) return std::nullopt;
    return replace(d, t, Expr(bound));
  }

  /// The same for c*n*(x // n), the form a symbolic divisor takes.
  static std::optional<Expr> relax_product(Expr d, const Term& t) {
    for (const ExprNode* f : t.monomial->factors) {
      if (f->kind != ExprKind::FloorDiv || f->rhs.load()->lo < 0) continue;
      const Expr x(f->lhs), b(f->rhs), product = Expr(t.monomial) * Expr(t.coefficient);
      const auto scale = divide_exactly(Expr(divide_monomials(t.monomial, f)) * Expr(t.coefficient), b);
      if (!scale) continue;
      if (scale->lo() >= 0) return d - product + x * *scale;
      if (scale->hi() <= 0) return d - product + (x - b + Expr(1)) * *scale;
    }
    return std::nullopt;
  }

  int steps_ = kSteps;
};

/// Multipliers m for which m * fact may cancel a variable of d.
std::vector<int64_t> multipliers(Expr d, Expr fact) {
  std::vector<int64_t> out{1};
  std::vector<Expr> vars;
  collect_vars(fact, vars);
  for (Expr var : vars) {
    const auto a = stride_of(d, var), b = stride_of(fact, var);
    if (!a || !b || !a->is_const() || !b->is_const() || b->is_const(0)) continue;
    const int64_t m = a->value() / b->value();
    if (m > 1 && m * b->value() == a->value() && std::find(out.begin(), out.end(), m) == out.end())
      out.push_back(m);
  }
  return out;
}

class ProverWithFacts {
public:
  explicit ProverWithFacts(const std::vector<Expr>& facts) : facts_(facts) {}

  /// Whether d <= 0 can be proved with at most `count` facts, none of them before `from`.
  bool prove(Expr d, size_t from, int count) {
    if (proves_nonpositive(d)) return true;
    if (steps_-- <= 0) return false;
    if (count > 0)
      for (size_t i = from; i < facts_.size(); ++i)
        for (int64_t m : multipliers(d, facts_[i]))
          if (prove(d - facts_[i] * Expr(m), i + 1, count - 1)) return true;
    return by_arms(d, [&](Expr arm) { return prove(arm, from, count); }).value_or(false);
  }

private:
  const std::vector<Expr>& facts_;
  int steps_ = kStepsWithFacts;
};

} // namespace

bool proves_nonpositive(Expr t, const std::vector<Expr>& facts) {
  try {
    return ProverWithFacts(facts).prove(t, 0, kFacts);
  } catch (const Error&) { // an overflow on the way proves nothing
    return false;
  }
}

bool proves_nonpositive(Expr d) {
  if (d.hi() <= 0) return true;
  if (d.lo() > 0) return false;
  const ExprNode* n = d.node();
  if (const uint8_t known = n->nonpositive.load(std::memory_order_relaxed)) return known == 2;
  bool proved = false;
  try {
    proved = Prover().prove(d);
  } catch (const Error&) { // an overflow on the way proves nothing
  }
  n->nonpositive.store(proved ? 2 : 1, std::memory_order_relaxed);
  return proved;
}

bool proves_le(Expr a, Expr b) {
  if (a == b || a.hi() <= b.lo()) return true;
  if (a.lo() > b.hi()) return false;
  return proves_nonpositive(a - b);
}

bool proves_lt(Expr a, Expr b) {
  if (a.hi() < b.lo()) return true;
  if (a.lo() >= b.hi()) return false;
  return proves_nonpositive(a - b + Expr(1));
}

} // namespace lathe
