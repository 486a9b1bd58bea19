// The rewrite rules of the graph: a table of text rules over elementwise ops, and a table of structural ones.
//
// A letter is one binding, lower or upper case: rules with a constant A call the other operand x.
// Every rule keeps each value to the bit (NaNs stay NaN, whichever they are). What would not, does not stand
// here: x - x is NaN for an infinity, x + 0 turns -0 into +0, x * 0 hides NaN, 1 / (1 / x) rounds twice.
#pragma once
#include <span>

#include "core/rules.hpp"
#include "graph/node.hpp"

namespace lathe::graph {

struct GraphTraits {
  using Node = NodeRef;
  static Op op(const NodeRef& n) { return n->op; }
  static DType dtype(const NodeRef& n) { return n->dtype; }
  static size_t source_count(const NodeRef& n) { return n->sources.size(); }
  static const NodeRef& source(const NodeRef& n, size_t i) { return n->sources[i]; }
  static const Scalar* constant(const NodeRef& n) { return n->op == Op::Const ? const_scalar(n) : nullptr; }
  static NodeRef number(const Scalar& value, const NodeRef& root) {
    return graph::constant(value, root->shape);
  }
  static NodeRef make(Op op, DType dtype, std::vector<NodeRef> sources, const NodeRef& root);
};

using GraphRule = Rule<GraphTraits>;

/// A rule that text can't say, as it looks at shapes or attributes: the replacement, or null where it doesn't
/// apply.
struct StructuralRule {
  const char* name;
  NodeRef (*apply)(const NodeRef& node);
};

std::span<const GraphRule> graph_rules();
std::span<const StructuralRule> structural_rules();

} // namespace lathe::graph
