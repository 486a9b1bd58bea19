// Scopes of expressions: the expressions that a compilation makes die with it.
//
// An Expr has no owner. Without a scope its node lives until the process ends, as the nodes of the shapes
// that users write do. A compilation makes thousands of other expressions. It makes them in a scope, which
// the compiled program keeps alive:
//
//   const InExprScope inside(new_expr_scope());
//   Expr i = loop_var(0, "i", n);               // belongs to the scope
//   Expr e = n * 4;                             // so does this: it was made here
//
// A node belongs to the scope that it is made in if that scope is inside of its parts' scopes, and else to
// its parts' scope. So an expression never outlives its parts, whoever makes it. Constants belong to no
// scope. Scopes nest: a search has a scope inside that of its compilation.
#pragma once
#include <memory>

#include "lathe/expr.hpp"

namespace lathe {

struct ExprScope;
/// Keeps the scope, and those around it, alive.
using ExprScopeRef = std::shared_ptr<const ExprScope>;

/// An empty scope inside of the calling thread's.
ExprScopeRef new_expr_scope();
/// The calling thread's scope; null: expressions that it makes live until the process ends.
ExprScopeRef current_expr_scope();

/// While this object lives, the calling thread makes expressions in `scope` (null: in none). Lives on the
/// stack.
class InExprScope {
public:
  explicit InExprScope(ExprScopeRef scope);
  ~InExprScope();
  InExprScope(const InExprScope&) = delete;
  InExprScope& operator=(const InExprScope&) = delete;

private:
  ExprScopeRef scope_;
  const ExprScope* outer_;
};

/// The same expression in the calling thread's scope, which need not be inside of the expression's.
Expr in_scope_here(Expr e);
/// The same expression, which lives until the process ends. For expressions that users get to keep.
Expr outside_scopes(Expr e);
Shape outside_scopes(const Shape& shape);

} // namespace lathe
