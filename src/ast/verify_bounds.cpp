// Proves that an access is in bounds. Expr knows the extents of loops. The guards of a Load serve in two
// ways. First, they are facts for the prover. Second, the guarded expression becomes a variable with the
// range that the guards allow, which also helps with indices that divide the expression. If neither decides
// and the loops are short, the proof tries all their iterations. Chains of reshapes need that: they leave
// quotients of quotients.
#include <algorithm>

#include "ast/verify.hpp"
#include "view/prove.hpp"

namespace lathe::ast {
namespace {

bool in_range(Expr index, Expr extent) { return proves_le(0, index) && proves_lt(index, extent); }

/// Adds to `facts` the Exprs that are <= 0 if the guard holds.
void add_facts(Expr guard, std::vector<Expr>& facts) {
  const bool compares = guard.kind() == ExprKind::Lt || guard.kind() == ExprKind::Le;
  if (compares && guard.rhs().kind() == ExprKind::Mod) { // a remainder is at most the dividend
    const Expr divided = guard.rhs().lhs();
    if (divided.lo() >= 0)
      add_facts(guard.kind() == ExprKind::Lt ? lt(guard.lhs(), divided) : le(guard.lhs(), divided), facts);
  }
  switch (guard.kind()) {
  case ExprKind::Lt: facts.push_back(guard.lhs() - guard.rhs() + 1); break;
  case ExprKind::Le: facts.push_back(guard.lhs() - guard.rhs()); break;
  case ExprKind::Eq:
    facts.push_back(guard.lhs() - guard.rhs());
    facts.push_back(guard.rhs() - guard.lhs());
    break;
  case ExprKind::And:
    add_facts(guard.lhs(), facts);
    add_facts(guard.rhs(), facts);
    break;
  default: break;
  }
}

/// Tries to prove the bound with a change of variables: the linear expression of a fact becomes a loop
/// variable over the range that the facts leave it.
bool proves_by_naming(Expr index, Expr extent, const std::vector<Expr>& facts) {
  for (size_t k = 0; k < facts.size(); ++k) {
    std::vector<Expr> vars;
    collect_vars(facts[k], vars);
    for (Expr var : vars) {
      const auto stride = stride_of(facts[k], var);
      if (!stride || !(stride->is_const(1) || stride->is_const(-1))) continue;
      // form = facts[k] without its constant, with a positive sign of var; low <= form <= high.
      Substitution zeros;
      for (Expr v : vars) zeros.emplace_back(v, 0);
      Expr form = stride->is_const(1) ? facts[k] : -facts[k];
      form = form - lathe::substitute(form, zeros);
      std::optional<Expr> low, high;
      for (Expr fact : facts) {
        if (const Expr rest = fact - form; !depends_on(rest, var)) high = high ? min(*high, -rest) : -rest;
        if (const Expr rest = fact + form; !depends_on(rest, var)) low = low ? max(*low, rest) : rest;
      }
      if (!high && form.hi() != INT64_MAX) high = form.hi();
      if (!low && form.lo() != INT64_MIN) low = form.lo();
      if (!low || !high) continue;
      if (proves_lt(*high, *low)) return true; // the guards never hold
      const Expr named = loop_var(1 << 30, "fact", *high - *low + 1);
      const Expr value = named + *low - (form - var);
      if (in_range(lathe::substitute(index, {{var, value}}), extent)) return true;
    }
  }
  return false;
}

/// All assignments of some variables within their loops, one after the other.
class Iterations {
public:
  explicit Iterations(std::vector<Expr> vars) : vars_(std::move(vars)), values_(vars_.size(), 0) {
    for (size_t i = 0; i < vars_.size(); ++i) { // extents may depend on loops around
      const auto extent = vars_[i].extent();
      std::vector<Expr> more;
      if (extent) collect_vars(*extent, more);
      for (Expr v : more)
        if (std::find(vars_.begin(), vars_.end(), v) == vars_.end()) vars_.push_back(v);
    }
    values_.resize(vars_.size());
  }

  /// Whether `holds` is true for each assignment; false if there are more than `most`.
  template <class F> bool all(int64_t most, const F& holds) {
    int64_t count = 1;
    for (size_t i = 0; i < vars_.size(); ++i) {
      const int64_t lo = vars_[i].lo(), hi = vars_[i].hi();
      if (lo < 0 || hi > most || (count *= hi - lo + 1) > most) return false;
      values_[i] = lo;
    }
    while (true) {
      if (are_iterations() && !holds([this](Expr e) { return value(e); })) return false;
      size_t i = 0;
      for (; i < vars_.size() && ++values_[i] > vars_[i].hi(); ++i) values_[i] = vars_[i].lo();
      if (i == vars_.size()) return true;
    }
  }

private:
  int64_t value(Expr e) const {
    return evaluate(e, [this](Expr var) {
      return values_[static_cast<size_t>(std::find(vars_.begin(), vars_.end(), var) - vars_.begin())];
    });
  }
  bool are_iterations() const {
    for (size_t i = 0; i < vars_.size(); ++i)
      if (const auto extent = vars_[i].extent(); extent && values_[i] >= value(*extent)) return false;
    return true;
  }

  std::vector<Expr> vars_;
  std::vector<int64_t> values_; // by variable
};

bool proves_by_trying(Expr index, Expr extent, const std::vector<Expr>& guards) {
  constexpr int64_t kMost = 1 << 13;
  std::vector<Expr> vars;
  collect_vars(index, vars);
  collect_vars(extent, vars);
  for (Expr guard : guards) collect_vars(guard, vars);
  return Iterations(std::move(vars)).all(kMost, [&](const auto& value) {
    for (Expr guard : guards)
      if (value(guard) == 0) return true;
    const int64_t at = value(index);
    return 0 <= at && at < value(extent);
  });
}

} // namespace

bool proves_in_bounds(Expr index, Expr extent, const std::vector<Expr>& guards) {
  if (in_range(index, extent)) return true;
  std::vector<Expr> facts;
  for (Expr guard : guards) add_facts(guard, facts);
  if (!facts.empty()) {
    if (proves_nonpositive(-index, facts) && proves_nonpositive(index - extent + 1, facts)) return true;
    if (proves_by_naming(index, extent, facts)) return true;
  }
  return proves_by_trying(index, extent, guards);
}

} // namespace lathe::ast
