#include "graph/rules.hpp"

#include <algorithm>

#include "core/identities.hpp"
#include "graph/block_product.hpp"
#include "graph/byte_table.hpp"
#include "graph/computed_table.hpp"
#include "graph/integer_product.hpp"
#include "graph/value_range.hpp"
#include "graph/widened.hpp"

namespace lathe::graph {

NodeRef GraphTraits::make(Op op, DType dtype, std::vector<NodeRef> s, const NodeRef&) {
  if (op == Op::Cast) return cast(std::move(s[0]), dtype);
  if (op == Op::Bitcast) return bitcast(std::move(s[0]), dtype);
  if (op == Op::Where) return graph::where(std::move(s[0]), std::move(s[1]), std::move(s[2]));
  if (s.size() == 2) return binary(op, std::move(s[0]), std::move(s[1]));
  return unary(op, std::move(s[0]));
}

namespace {

constexpr GraphRule kGraphRules[] = {
    {"add-negated", RuleDomain::Integer, "Add(a, Neg(a))", "0"},
    {"xor-constants", RuleDomain::Integer, "Xor(Xor(x, A), B)", "Xor(x, Xor(A, B))"},
    {"neg-mul-constant", RuleDomain::Float, "Neg(Mul(x, A))", "Mul(x, Neg(A))"},
    {"mul-neg-neg", RuleDomain::Float, "Mul(Neg(a), Neg(b))", "Mul(a, b)"},
    {"trunc-trunc", RuleDomain::Float, "Trunc(Trunc(a))", "Trunc(a)"},
};
constexpr auto kWithIdentities = with_identities(kGraphRules);

// Whether the order of combining changes no bit: for all but sums and products of floats.
bool is_order_free(Op combine, DType dtype) {
  return !is_float(dtype) || (combine != Op::Add && combine != Op::Mul);
}
bool is_idempotent(Op combine) { return combine == Op::Max || combine == Op::Or || combine == Op::And; }

NodeRef merge_reductions(const NodeRef& n) {
  if (n->op != Op::Reduce || n->sources[0]->op != Op::Reduce) return {};
  const NodeRef& inner = n->sources[0];
  const auto &outer_attr = std::get<ReduceAttr>(n->attr), &inner_attr = std::get<ReduceAttr>(inner->attr);
  if (outer_attr.combine != inner_attr.combine || !is_order_free(outer_attr.combine, n->dtype)) return {};
  std::vector<int> axes = inner_attr.axes;
  axes.insert(axes.end(), outer_attr.axes.begin(), outer_attr.axes.end());
  return reduce(outer_attr.combine, inner->sources[0], std::move(axes));
}

NodeRef reduce_constant(const NodeRef& n) {
  if (n->op != Op::Reduce) return {};
  const Scalar* s = GraphTraits::constant(n->sources[0]);
  return s && is_idempotent(std::get<ReduceAttr>(n->attr).combine) ? constant(*s, n->shape) : NodeRef{};
}

// Combining copies by Max, Or or And gives one of them, so axes that a view only repeats are not reduced.
NodeRef reduce_repeated(const NodeRef& n) {
  if (n->op != Op::Reduce) return {};
  const auto& attr = std::get<ReduceAttr>(n->attr);
  const NodeRef& source = n->sources[0];
  if (source->op != Op::View || !is_idempotent(attr.combine)) return {};
  const View& v = std::get<View>(source->attr);
  std::vector<Expr> begin(v.shape().size(), Expr(0)), end = v.shape();
  std::vector<int> axes;
  for (int axis : attr.axes) {
    const bool whole = v.mask().empty() || v.mask()[axis] == Interval{0, v.shape()[axis]};
    if (v.strides()[axis] == Expr(0) && whole)
      end[axis] = 1;
    else
      axes.push_back(axis);
  }
  if (axes.size() == attr.axes.size()) return {};
  return reduce(attr.combine, view(source, View::contiguous(v.shape()).shrink(begin, end)), std::move(axes));
}

// The axes along which all elements of the node are the same, because it is a constant or a view repeats
// them.
std::vector<bool> repeated_axes(const NodeRef& n) {
  std::vector<bool> repeated(n->shape.size(), n->op == Op::Const);
  if (n->op != Op::View) return repeated;
  const View& v = std::get<View>(n->attr);
  for (size_t k = 0; k < repeated.size(); ++k)
    repeated[k] = v.strides()[k] == Expr(0) && (!v.has_mask() || v.mask()[k] == Interval{0, v.shape()[k]});
  return repeated;
}

// Computes, then repeats: along an axis that all sources repeat, an elementwise op is computed once.
NodeRef repeat_afterwards(const NodeRef& n) {
  if (!is_elementwise(n->op)) return {};
  std::vector<bool> repeated(n->shape.size(), true);
  for (const NodeRef& s : n->sources) {
    const std::vector<bool> r = repeated_axes(s);
    for (size_t k = 0; k < r.size(); ++k) repeated[k] = repeated[k] && r[k];
  }
  std::vector<Expr> begin(n->shape.size(), Expr(0)), end = n->shape;
  for (size_t k = 0; k < end.size(); ++k)
    if (repeated[k]) end[k] = 1;
  if (end == n->shape) return {};
  const View once = View::contiguous(n->shape).shrink(begin, end);
  std::vector<NodeRef> sources;
  for (const NodeRef& s : n->sources) sources.push_back(view(s, once));
  return view(with_sources(n, std::move(sources)), View::contiguous(end).expand(n->shape));
}

NodeRef contiguous_of_computed(const NodeRef& n) {
  // These ops have a nest of their own, which stores the result row-major anyway.
  if (n->op != Op::Contiguous) return {};
  const Op op = n->sources[0]->op;
  return op == Op::Reduce || op == Op::Scatter || op == Op::Gather || op == Op::Transform ? n->sources[0]
                                                                                          : NodeRef{};
}

// What is copied of a value in a wider dtype is copied in the narrow one. Then the copy has fewer bytes.
NodeRef contiguous_of_widened(const NodeRef& n) {
  if (n->op != Op::Contiguous || n->sources[0]->op != Op::View) return {};
  const NodeRef& seen = n->sources[0]->sources[0];
  if (!is_widened(seen)) return {};
  // What lies outside of the view is 0 in both.
  return cast(contiguous(view(seen->sources[0], std::get<View>(n->sources[0]->attr))), n->dtype);
}

// A Function node marks a value for gradients(). Derivatives are taken before this rule runs, so the value
// replaces the node.
NodeRef function_value(const NodeRef& n) { return n->op == Op::Function ? n->sources[0] : NodeRef{}; }

// Values that have no elements, or are made of none, are not computed.
NodeRef made_of_nothing(const NodeRef& n) {
  if (n->op == Op::Const) return {};
  const auto zeros = [&] { return constant(Scalar::zero(n->dtype), n->shape); };
  if (has_no_elements(n->shape)) return zeros();
  const bool reads_nothing = std::any_of(n->sources.begin(), n->sources.end(),
                                         [](const NodeRef& s) { return has_no_elements(s->shape); });
  if (!reads_nothing) return {};
  switch (n->op) {
  case Op::Reduce: return constant(identity(std::get<ReduceAttr>(n->attr).combine, n->dtype), n->shape);
  case Op::Scatter: return n->sources[0];
  default: return zeros(); // of a View, padding; of a Gather, indices out of range
  }
}

constexpr StructuralRule kStructural[] = {
    {"made-of-nothing", &made_of_nothing},
    {"function-value", &function_value},
    {"reduce-reduce", &merge_reductions},
    {"reduce-constant", &reduce_constant},
    {"reduce-repeated", &reduce_repeated},
    {"repeat-afterwards", &repeat_afterwards},
    {"contiguous-computed", &contiguous_of_computed},
    {"contiguous-widened", &contiguous_of_widened},
    {"decided-by-range", &decided_by_range},
    {"narrow-arithmetic", &narrow_arithmetic},
    {"narrow-sum", &narrow_sum},
    {"integer-product", &integer_product},
    {"block-product", &block_product},
    {"byte-table", &byte_table},
    {"gather-of-computed", &gather_of_computed},
};

} // namespace

std::span<const GraphRule> graph_rules() { return kWithIdentities; }
std::span<const StructuralRule> structural_rules() { return kStructural; }

} // namespace lathe::graph
