// Expr's accessors, variables, the structural order, and sums and products.
#include "lathe/expr.hpp"

#include <algorithm>

#include <fmt/core.h>

#include "core/scanner.hpp"
#include "lathe/error.hpp"
#include "view/expr_node.hpp"
#include "view/shape_variable.hpp"

namespace lathe {
namespace {

[[noreturn]] void overflow() {
  throw Error(ErrorKind::Limit,
              "index expression: a constant overflows, expected sizes and offsets that fit in 64 bits");
}

int rank(const ExprNode* n) {
  switch (n->kind) {
  case ExprKind::Var: return n->id >= 0 ? 0 : 1;
  case ExprKind::FloorDiv: return 2;
  case ExprKind::Mod: return 3;
  case ExprKind::Min: return 4;
  case ExprKind::Max: return 5;
  case ExprKind::Lt: return 6;
  case ExprKind::Le: return 7;
  case ExprKind::Eq: return 8;
  case ExprKind::And: return 9;
  case ExprKind::Mul: return 10;
  case ExprKind::Add: return 11;
  case ExprKind::Const: return 12;
  }
  return 13;
}

/// Returns `made`, an operand of `whole`. The slot `part` of `whole` keeps it if it lives at least as long.
const ExprNode* kept_as_part(const ExprNode& whole, std::atomic<const ExprNode*>& part,
                             const ExprNode* made) {
  if (lives_as_long(*made, whole)) part.store(made, std::memory_order_release);
  return made;
}

template <class T> int three_way(const T& a, const T& b) { return a < b ? -1 : b < a ? 1 : 0; }

int compare_factors(const ExprNode* a, const ExprNode* b) {
  if (a == b) return 0;
  if (int c = three_way(rank(a), rank(b))) return c;
  if (a->kind == ExprKind::Add) return compare(a, b);
  if (a->kind != ExprKind::Var) {
    const int c = compare(a->lhs, b->lhs);
    return c ? c : compare(a->rhs, b->rhs);
  }
  if (int c = three_way(a->id, b->id)) return c;
  if (int c = a->name->compare(*b->name)) return c;
  if (a->extent && b->extent) return compare(a->extent, b->extent);
  if (int c = three_way(a->lo, b->lo)) return c;
  if (int c = three_way(a->hi, b->hi)) return c;
  return three_way(a->extent != nullptr, b->extent != nullptr);
}

void sort_factors(SmallList<const ExprNode*>& factors) {
  std::sort(factors.begin(), factors.end(),
            [](const ExprNode* a, const ExprNode* b) { return compare_factors(a, b) < 0; });
}

/// a * b with sums kept as factors, for products of sums that would have too many terms to write out.
Expr multiply_opaque(Expr a, Expr b) {
  SmallList<const ExprNode*> factors;
  int64_t coefficient = 1;
  for (Expr e : {a, b}) {
    const ExprNode* n = e.node();
    if (n->kind == ExprKind::Add) {
      factors.push(n);
      continue;
    }
    coefficient = checked_mul(coefficient, n->terms[0].coefficient);
    for (const ExprNode* f : n->terms[0].monomial->factors) factors.push(f);
  }
  sort_factors(factors);
  return Expr(intern_scaled(intern_product({factors.begin(), factors.size()}), coefficient));
}

/// Replaces c*(x % b) + c*b*(x // b) by c*x, or c*(x % b) + c*b*((x // b) % m) by c*(x % (b*m)). Does one
/// replacement, and returns whether it found one.
bool recombine(Sum& sum) {
  for (size_t i = 0; i < sum.terms.size(); i++) {
    const Term low = sum.terms[i];
    if (!low.monomial->has_mod) continue;
    for (const ExprNode* factor : low.monomial->factors) {
      if (factor->kind != ExprKind::Mod) continue;
      const Expr x(factor->lhs), b(factor->rhs);
      if (b.lo() < 0) continue;
      const Expr quotient = floordiv(x, b);
      const Expr others(divide_monomials(low.monomial, factor));
      const Expr scale = others * b;
      if (scale.node()->terms.size() + (scale.node()->constant != 0) != 1) continue;
      for (size_t j = 0; j < sum.terms.size(); j++) {
        const Term high = sum.terms[j];
        if (j == i || !high.monomial->has_div) continue;
        for (const ExprNode* f : high.monomial->factors) {
          const bool whole = f == quotient.node();
          if (!whole && !(f->kind == ExprKind::Mod && f->lhs == quotient.node())) continue;
          const Expr wanted = scale * Expr(f);
          const auto terms = wanted.node()->terms;
          if (terms.size() != 1 || terms[0].monomial != high.monomial) continue;
          int64_t coefficient;
          if (__builtin_mul_overflow(terms[0].coefficient, low.coefficient, &coefficient)) continue;
          if (coefficient != high.coefficient) continue;
          sum.terms.erase(std::max(i, j));
          sum.terms.erase(std::min(i, j));
          sum.add(others * (whole ? x : mod(x, b * Expr(f->rhs))), low.coefficient);
          return true;
        }
      }
    }
  }
  return false;
}

} // namespace

int64_t bound_add(int64_t a, int64_t b) {
  if (a == kLeast || a == kMost) return a;
  if (b == kLeast || b == kMost) return b;
  int64_t r;
  if (__builtin_add_overflow(a, b, &r)) return a < 0 ? kLeast : kMost;
  return r;
}

int64_t bound_mul(int64_t a, int64_t b) {
  if (a == 0 || b == 0) return 0;
  const bool negative = (a < 0) != (b < 0);
  int64_t r;
  if (a == kLeast || a == kMost || b == kLeast || b == kMost || __builtin_mul_overflow(a, b, &r))
    return negative ? kLeast : kMost;
  return r;
}

int64_t floor_quotient(int64_t a, int64_t b) {
  if (b == -1) return a == kLeast ? kMost : -a;
  const int64_t q = a / b;
  return a % b != 0 && (a < 0) != (b < 0) ? q - 1 : q;
}

int64_t floor_remainder(int64_t a, int64_t b) {
  if (b == -1) return 0;
  const int64_t r = a % b;
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

int64_t checked_add(int64_t a, int64_t b) {
  int64_t r;
  if (__builtin_add_overflow(a, b, &r)) overflow();
  return r;
}

int64_t checked_mul(int64_t a, int64_t b) {
  int64_t r;
  if (__builtin_mul_overflow(a, b, &r)) overflow();
  return r;
}

int compare_monomials(const ExprNode* a, const ExprNode* b) {
  if (a == b) return 0;
  const size_t n = std::min(a->factors.size(), b->factors.size());
  for (size_t i = 0; i < n; i++)
    if (int c = compare_factors(a->factors[i], b->factors[i])) return c;
  return -three_way(a->factors.size(), b->factors.size()); // i*n before i
}

int compare(const ExprNode* a, const ExprNode* b) {
  if (a == b) return 0;
  if (a->terms.empty() != b->terms.empty()) return a->terms.empty() ? -1 : 1; // constants first: min(32, n)
  const size_t n = std::min(a->terms.size(), b->terms.size());
  for (size_t i = 0; i < n; i++) {
    if (int c = compare_monomials(a->terms[i].monomial, b->terms[i].monomial)) return c;
    if (int c = three_way(a->terms[i].coefficient, b->terms[i].coefficient)) return c;
  }
  if (int c = three_way(a->terms.size(), b->terms.size())) return c;
  return three_way(a->constant, b->constant);
}

const ExprNode* multiply_monomials(const ExprNode* a, const ExprNode* b) {
  SmallList<const ExprNode*> factors;
  for (const ExprNode* f : a->factors) factors.push(f);
  for (const ExprNode* f : b->factors) factors.push(f);
  sort_factors(factors);
  return intern_product({factors.begin(), factors.size()});
}

const ExprNode* divide_monomials(const ExprNode* a, const ExprNode* b) {
  SmallList<const ExprNode*> left;
  for (const ExprNode* f : a->factors) left.push(f);
  for (const ExprNode* f : b->factors) {
    auto it = std::find(left.begin(), left.end(), f);
    if (it == left.end()) return nullptr;
    left.erase(static_cast<size_t>(it - left.begin()));
  }
  return intern_product({left.begin(), left.size()});
}

void Sum::add(const Term& t) {
  size_t i = 0;
  for (; i < terms.size(); i++) {
    const int c = compare_monomials(terms[i].monomial, t.monomial);
    if (c > 0) break;
    if (c < 0) continue;
    terms[i].coefficient = checked_add(terms[i].coefficient, t.coefficient);
    if (terms[i].coefficient == 0) terms.erase(i);
    return;
  }
  terms.push(t);
  std::rotate(terms.begin() + i, terms.end() - 1, terms.end());
}

void Sum::add(Expr e, int64_t factor) {
  const ExprNode* n = e.node();
  constant = checked_add(constant, checked_mul(n->constant, factor));
  for (const Term& t : n->terms) add(Term{t.monomial, checked_mul(t.coefficient, factor)});
}

Expr Sum::expr() const {
  bool has_mod = false, has_other = false;
  for (const Term& t : terms) {
    has_other |= t.monomial->has_div && has_mod;
    has_mod |= t.monomial->has_mod;
    has_other |= t.monomial->has_div && !t.monomial->has_mod;
  }
  if (has_mod && has_other) {
    Sum shorter = *this;
    while (recombine(shorter)) {
    }
    return Expr(intern_sum({shorter.terms.begin(), shorter.terms.size()}, shorter.constant));
  }
  return Expr(intern_sum({terms.begin(), terms.size()}, constant));
}

Expr::Expr(Whole value) : node_(intern_const(value)) {}
Expr::Expr(const Var& var) : Expr(var.expr()) {}

ExprKind Expr::kind() const { return node_->kind; }
int64_t Expr::lo() const { return node_->lo; }
int64_t Expr::hi() const { return node_->hi; }
int64_t Expr::typical() const { return node_->extent ? usual_value(node_->lo, node_->hi) : node_->typical; }
size_t Expr::hash() const { return node_->hash; }

int64_t Expr::value() const {
  if (!is_const()) throw InternalError("value() of " + to_string(*this) + ", which is no constant");
  return node_->constant;
}

const std::string& Expr::name() const {
  if (!is_var()) throw InternalError("name() of " + to_string(*this) + ", which is no variable");
  return *node_->name;
}

int Expr::id() const {
  if (!is_var()) throw InternalError("id() of " + to_string(*this) + ", which is no variable");
  return node_->id;
}

std::optional<Expr> Expr::extent() const {
  if (!node_->extent) return std::nullopt;
  return Expr(node_->extent);
}

Expr Expr::lhs() const {
  if (const ExprNode* known = node_->lhs.load(std::memory_order_acquire)) return Expr(known);
  if (is_const() || is_var()) throw InternalError("lhs() of " + to_string(*this));
  const ExprNode* made;
  if (kind() == ExprKind::Mul)
    made = node_->factors.empty() ? node_->terms[0].monomial
                                  : intern_product(node_->factors.first(node_->factors.size() - 1));
  else if (node_->constant != 0)
    made = intern_sum(node_->terms, 0);
  else
    made = intern_sum(node_->terms.first(node_->terms.size() - 1), 0);
  return Expr(kept_as_part(*node_, node_->lhs, made));
}

Expr Expr::rhs() const {
  if (const ExprNode* known = node_->rhs.load(std::memory_order_acquire)) return Expr(known);
  if (is_const() || is_var()) throw InternalError("rhs() of " + to_string(*this));
  const ExprNode* made;
  if (kind() == ExprKind::Mul)
    made = node_->factors.empty() ? intern_const(node_->terms[0].coefficient) : node_->factors.back();
  else if (node_->constant != 0)
    made = intern_const(node_->constant);
  else
    made = intern_scaled(node_->terms.back().monomial, node_->terms.back().coefficient);
  return Expr(kept_as_part(*node_, node_->rhs, made));
}

Var::Var(std::string_view name, int64_t lo, int64_t hi, std::optional<int64_t> typical) {
  if (name.empty() || is_digit(name[0]) || !std::all_of(name.begin(), name.end(), is_word))
    throw Error(ErrorKind::Value, fmt::format("Var: bad name '{}', expected an identifier", name));
  if (lo > hi || lo < 0)
    throw Error(ErrorKind::Value,
                fmt::format("Var {}: bad bounds [{}, {}], expected 0 <= lo <= hi", name, lo, hi));
  const int64_t value = typical.value_or(usual_value(lo, hi));
  if (value < lo || value > hi)
    throw Error(ErrorKind::Value,
                fmt::format("Var {}: typical value {}, expected {} to {}", name, value, lo, hi));
  expr_ = Expr(intern_var(name, -1, lo, hi, nullptr, value));
}

Expr loop_var(int id, std::string_view name, Expr extent) {
  const int64_t last = extent.hi() == kMost ? kMost : std::max<int64_t>(extent.hi() - 1, 0);
  return Expr(intern_var(name, id, 0, last, extent.node(), 0));
}

Expr operator+(Expr a, Expr b) {
  if (a.is_const(0)) return b;
  if (b.is_const(0)) return a;
  Sum sum(a);
  sum.add(b);
  return sum.expr();
}

Expr operator-(Expr a, Expr b) {
  if (b.is_const(0)) return a;
  if (a == b) return Expr(0);
  Sum sum(a);
  sum.add(b, -1);
  return sum.expr();
}

Expr operator-(Expr a) { return a * Expr(-1); }

Expr operator*(Expr a, Expr b) {
  if (a.is_const()) std::swap(a, b);
  if (b.is_const()) {
    if (b.is_const(0)) return b;
    if (b.is_const(1)) return a;
    Sum sum;
    sum.add(a, b.value());
    return sum.expr();
  }
  const ExprNode *x = a.node(), *y = b.node();
  constexpr size_t kMostTerms = 64;
  if ((x->terms.size() + 1) * (y->terms.size() + 1) > kMostTerms) return multiply_opaque(a, b);
  Sum sum;
  sum.constant = checked_mul(x->constant, y->constant);
  for (const Term& s : x->terms) {
    for (const Term& t : y->terms)
      sum.add({multiply_monomials(s.monomial, t.monomial), checked_mul(s.coefficient, t.coefficient)});
    if (y->constant) sum.add({s.monomial, checked_mul(s.coefficient, y->constant)});
  }
  if (x->constant)
    for (const Term& t : y->terms) sum.add({t.monomial, checked_mul(t.coefficient, x->constant)});
  return sum.expr();
}

} // namespace lathe
