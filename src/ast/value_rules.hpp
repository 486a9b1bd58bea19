// The rewrite rules that make() applies to every value it builds.
#pragma once
#include "ast/ast.hpp"
#include "core/rules.hpp"

namespace lathe::ast {

struct ValueTraits {
  using Node = ValueRef;
  static Op op(const ValueRef& v) { return v->op; }
  static DType dtype(const ValueRef& v) { return v->dtype; }
  static size_t source_count(const ValueRef& v) { return v->sources.size(); }
  static const ValueRef& source(const ValueRef& v, size_t i) { return v->sources[i]; }
  static const Scalar* constant(const ValueRef& v) { return std::get_if<Scalar>(&v->attr); }
  static ValueRef number(const Scalar& value, const ValueRef&) { return ast::constant(value); }
  static ValueRef make(Op op, DType dtype, std::vector<ValueRef> sources, const ValueRef&) {
    return ast::make(op, dtype, std::move(sources));
  }
};

using ValueRule = Rule<ValueTraits>;

const RuleEngine<ValueTraits>& value_rules();

} // namespace lathe::ast
