// The tables that expressions live in: one per scope, and the process's. Only src/view includes this.
#pragma once
#include <memory>

#include "view/expr_node.hpp"
#include "view/growing_set.hpp"

namespace lathe {

/// Operands and result of a simplified operation.
struct ExprMemo {
  ExprKind op;
  const ExprNode *a, *b, *result;
  size_t hash;
};

struct ExprScope : std::enable_shared_from_this<ExprScope> {
  ExprScope(ExprScopeRef parent, int depth, size_t shards);

  const ExprScopeRef parent; // null: the process's scope, or one right inside of it
  const int depth;           // 0: the process's
  mutable GrowingSet<ExprNode> nodes;
  mutable GrowingSet<ExprMemo> memos;

  /// The next scope outwards.
  const ExprScope& around() const;
};

/// Lives until the process ends.
const ExprScope& process_scope();
/// The calling thread's scope; the process's if the thread has none.
const ExprScope& scope_here();

/// A scope for expressions that no caller gets to see. It is the thread's scope if the thread has one. Else
/// it is a scope that the thread uses again until that has grown large, so that the same work is not
/// repeated.
ExprScopeRef scope_in_passing();

/// The scope for a node whose parts live in `parts_home`: the thread's scope if that is inside of it. Else
/// `parts_home` itself, for example while a program of another compilation runs.
const ExprScope& home_for(const ExprScope& parts_home);

/// The inner one of two scopes of which one is inside of the other; InternalError if neither is.
const ExprScope& inner_of(const ExprScope& a, const ExprScope& b);

/// The node for which `equal` holds; if there is none, the node that `make` makes in an arena. `outermost` is
/// the innermost home of the node's parts. The search goes from the thread's scope outwards up to there.
template <class Equal, class Make>
const ExprNode* find_or_make(const ExprScope& outermost, size_t hash, Equal&& equal, Make&& make) {
  const ExprScope& home = home_for(outermost);
  for (const ExprScope* scope = &home;; scope = &scope->around()) {
    if (const ExprNode* found = scope->nodes.find(hash, equal)) return found;
    if (scope == &outermost) break;
  }
  return home.nodes.insert(hash, equal, [&](GrowingSet<ExprNode>::Arena& arena) {
    ExprNode* made = make(arena);
    made->home = &home;
    return made;
  });
}

} // namespace lathe
