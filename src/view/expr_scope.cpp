#include "view/expr_scope.hpp"

#include <vector>

#include "core/per_thread.hpp"
#include "lathe/error.hpp"
#include "view/expr_home.hpp"

namespace lathe {
namespace {

constexpr size_t kProcessShards = 32;

thread_local const ExprScope* here = nullptr; // null: the process's

/// Whether the nodes in `scope` live at least as long as those that the thread makes.
bool is_around(const ExprScope& scope) {
  const ExprScope* around = &scope_here();
  while (around->depth > scope.depth) around = &around->around();
  return around == &scope;
}

/// The same expression, in the thread's scope or one around it.
const ExprNode* copy(const ExprNode* n) {
  if (is_around(*n->home)) return n;
  SmallList<const ExprNode*> factors;
  switch (n->kind) {
  case ExprKind::Var:
    return intern_var(*n->name, n->id, n->lo, n->hi, n->extent ? copy(n->extent) : nullptr, n->typical);
  case ExprKind::Add: {
    SmallList<Term> terms;
    for (const Term& t : n->terms) terms.push({copy(t.monomial), t.coefficient});
    return intern_sum({terms.begin(), terms.size()}, n->constant);
  }
  case ExprKind::Mul:
    if (n->factors.empty()) return intern_scaled(copy(n->terms[0].monomial), n->terms[0].coefficient);
    for (const ExprNode* f : n->factors) factors.push(copy(f));
    return intern_product({factors.begin(), factors.size()});
  default: return intern_binary(n->kind, copy(n->lhs), copy(n->rhs));
  }
}

} // namespace

ExprScope::ExprScope(ExprScopeRef around, int inside, size_t shards)
    : parent(std::move(around)), depth(inside), nodes(shards), memos(shards) {}

const ExprScope& ExprScope::around() const { return parent ? *parent : process_scope(); }

const ExprScope& process_scope() {
  static const auto* scope = new ExprScope(nullptr, 0, kProcessShards);
  return *scope;
}

const ExprScope& scope_here() { return here ? *here : process_scope(); }

const ExprScope& home_for(const ExprScope& parts_home) {
  return is_around(parts_home) ? scope_here() : parts_home;
}

const ExprScope& inner_of(const ExprScope& a, const ExprScope& b) {
  if (&a == &b) return a;
  const ExprScope &inner = a.depth >= b.depth ? a : b, &outer = &inner == &a ? b : a;
  const ExprScope* scope = &inner;
  while (scope->depth > outer.depth) scope = &scope->around();
  if (scope != &outer)
    throw InternalError("an expression of two compilations that know nothing of each other");
  return inner;
}

bool lives_as_long(const ExprNode& part, const ExprNode& whole) {
  return part.home->depth <= whole.home->depth;
}

ExprScopeRef new_expr_scope() {
  return std::make_shared<const ExprScope>(current_expr_scope(), scope_here().depth + 1, size_t{1});
}

ExprScopeRef current_expr_scope() { return here ? here->shared_from_this() : nullptr; }

ExprScopeRef scope_in_passing() {
  constexpr size_t kMostNodes = 1024; // nodes of about 300 bytes, in each thread
  if (here) return current_expr_scope();
  auto& kept = per_thread<ExprScopeRef, struct InPassing>();
  if (!kept || kept->nodes.size() > kMostNodes) kept = new_expr_scope();
  return kept;
}

InExprScope::InExprScope(ExprScopeRef scope) : scope_(std::move(scope)), outer_(here) { here = scope_.get(); }
InExprScope::~InExprScope() { here = outer_; }

Expr in_scope_here(Expr e) { return Expr(copy(e.node())); }

Expr outside_scopes(Expr e) {
  const InExprScope process(nullptr);
  return in_scope_here(e);
}

Shape outside_scopes(const Shape& shape) {
  Shape kept;
  for (const Expr e : shape) kept.push_back(outside_scopes(e));
  return kept;
}

} // namespace lathe
