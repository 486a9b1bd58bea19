// Visits or rewrites values one after the other, and what they share once: the points of a transform are
// dozens of stores over the same loads.
#pragma once
#include <memory>

#include "ast/ast.hpp"

namespace lathe::ast {

class ValueVisitor {
public:
  /// `f` sees each distinct value once, after its sources.
  explicit ValueVisitor(std::function<void(const ValueRef&)> f);
  ~ValueVisitor();
  void operator()(const ValueRef& value); ///< null is none

private:
  struct Run;
  std::unique_ptr<Run> run_;
};

class ValueRewriter {
public:
  /// What the functions of `rewriter` return may not change while this lives.
  explicit ValueRewriter(Rewriter rewriter);
  ~ValueRewriter();
  ValueRef operator()(const ValueRef& value); ///< null stays null

private:
  struct Run;
  std::unique_ptr<Run> run_;
};

} // namespace lathe::ast
