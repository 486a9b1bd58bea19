// Kernels that are wrong in ways that a tolerance may hide: part of a sum is left out, a term comes twice, or
// nothing is computed at all.
#pragma once
#include <memory>

#include "search/moves/plan.hpp"

namespace lathe::test {

template <class Change>
search::KernelPlanRef with_statements(const search::KernelPlan& kernel, Change&& change) {
  search::KernelPlan bad = kernel;
  ast::Rewriter rewriter;
  rewriter.on_stmt = change;
  bad.kernel.body = ast::rewrite(bad.kernel.body, rewriter);
  bad.hash = ast::structural_hash(bad.kernel);
  return std::make_shared<const search::KernelPlan>(std::move(bad));
}

inline bool combines(const ast::Block& body) {
  bool found = false;
  ast::visit(body, [&](const ast::Stmt& stmt, const auto&) {
    const auto* store = std::get_if<ast::Store>(&stmt.node);
    found |= store && store->combine;
  });
  return found;
}
/// The innermost loop around the sum.
inline const ast::For* reducing(const ast::Stmt& stmt) {
  const auto* loop = std::get_if<ast::For>(&stmt.node);
  return loop && loop->body.size() == 1 && std::holds_alternative<ast::Store>(loop->body[0].node) &&
                 combines(loop->body)
             ? loop
             : nullptr;
}

/// Every sum lacks its last `terms` terms.
inline search::KernelPlanRef left_out(const search::KernelPlan& kernel, int64_t terms) {
  return with_statements(kernel, [terms](ast::Stmt stmt) {
    if (const ast::For* loop = reducing(stmt)) {
      ast::For shorter;
      shorter.extent = *loop->var.extent() - Expr(terms);
      shorter.var = loop_var(loop->var.id(), loop->var.name(), shorter.extent);
      shorter.body = ast::substitute(loop->body, {{loop->var, shorter.var}});
      stmt.node = std::move(shorter);
    }
    ast::Block out;
    out.push_back(std::move(stmt));
    return out;
  });
}

/// Every sum has its term number `which` twice.
inline search::KernelPlanRef doubled(const search::KernelPlan& kernel, int64_t which) {
  return with_statements(kernel, [which](ast::Stmt stmt) {
    ast::Block out;
    if (const ast::For* loop = reducing(stmt))
      for (ast::Stmt& again : ast::substitute(loop->body, {{loop->var, Expr(which)}}))
        out.push_back(std::move(again));
    out.push_back(std::move(stmt));
    return out;
  });
}

/// All that is stored is 0.
inline search::KernelPlanRef zeroed(const search::KernelPlan& kernel) {
  return with_statements(kernel, [](ast::Stmt stmt) {
    if (auto* store = std::get_if<ast::Store>(&stmt.node))
      store->value = ast::constant(Scalar::zero(store->value->dtype));
    ast::Block out;
    out.push_back(std::move(stmt));
    return out;
  });
}

} // namespace lathe::test
