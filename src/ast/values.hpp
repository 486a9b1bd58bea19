// Visits or rewrites several values in turn, and each shared node once. Shared nodes are many: the points of
// a transform are dozens of stores over the same loads.
#pragma once
#include <memory>

#include "ast/ast.hpp"

namespace lathe::ast {

class ValueVisitor {
public:
  /// `f` sees each distinct value once, after its sources.
  explicit ValueVisitor(std::function<void(const ValueRef&)> f);
  ~ValueVisitor();
  void operator()(const ValueRef& value); ///< ignores null

private:
  struct Run;
  std::unique_ptr<Run> run_;
};

class ValueRewriter {
public:
  /// The functions of `rewriter` must return the same results as long as this object lives.
  explicit ValueRewriter(Rewriter rewriter);
  ~ValueRewriter();
  ValueRef operator()(const ValueRef& value); ///< null stays null

private:
  struct Run;
  std::unique_ptr<Run> run_;
};

} // namespace lathe::ast
