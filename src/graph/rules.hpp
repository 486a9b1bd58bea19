// The rewrite rules of the graph: a table of text rules over elementwise ops (core/identities.hpp and some of
// the graph's own), and a table of structural ones. Every rule keeps each value to the bit, but for the sums of
// floats that integer_product.hpp makes exact.
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

/// A rule that text can't state, because it looks at shapes or attributes. `apply` gives the replacement, or
/// null where the rule doesn't apply.
struct StructuralRule {
  const char* name;
  NodeRef (*apply)(const NodeRef& node);
};

std::span<const GraphRule> graph_rules();
std::span<const StructuralRule> structural_rules();

} // namespace lathe::graph
