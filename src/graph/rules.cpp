#include "graph/rules.hpp"

#include <algorithm>
#include <cmath>

#include "core/float_format.hpp"

namespace lathe::graph {

NodeRef GraphTraits::make(Op op, DType dtype, std::vector<NodeRef> s, const NodeRef&) {
  if (op == Op::Cast) return cast(std::move(s[0]), dtype);
  if (op == Op::Bitcast) return bitcast(std::move(s[0]), dtype);
  if (op == Op::Where) return graph::where(std::move(s[0]), std::move(s[1]), std::move(s[2]));
  if (s.size() == 2) return binary(op, std::move(s[0]), std::move(s[1]));
  return unary(op, std::move(s[0]));
}

namespace {

using Match = RuleMatch<GraphTraits>;

bool is_minus_zero(const NodeRef&, const Match& m) {
  const double v = const_scalar(m['A'])->as_float();
  return v == 0 && std::signbit(v);
}

bool is_all_ones(const NodeRef&, const Match& m) {
  const Scalar* s = const_scalar(m['A']);
  return *s == identity(Op::And, s->dtype());
}

bool has_exact_inverse(const NodeRef&, const Match& m) {
  return lathe::has_exact_inverse(*const_scalar(m['A']));
}

// Whether every value of `from` is one of `to`.
bool is_exact(DType from, DType to) {
  if (from == to || from == DType::Bool) return true;
  if (to == DType::Bool) return false;
  const int bits = size_of(from) * 8 - is_signed(from);
  if (is_float(from)) return is_float(to) && (to == DType::F64 || (to == DType::F32 && size_of(from) == 2));
  if (is_float(to)) return bits <= digits(to);
  return bits <= size_of(to) * 8 - is_signed(to) && (is_unsigned(from) || is_signed(to));
}

// Cast(Cast(a)) through a dtype that holds every value of a's. Not integer -> float -> integer: a float
// saturates where an integer wraps.
bool inner_cast_is_exact(const NodeRef& root, const Match& m) {
  const DType from = m['a']->dtype, through = root->sources[0]->dtype;
  if (!is_exact(from, through)) return false;
  return !(is_integer(from) && is_float(through) && is_integer(root->dtype)) || is_exact(from, root->dtype);
}

// Integers only, narrowed to what the inner cast kept.
bool inner_cast_keeps_low_bits(const NodeRef& root, const Match& m) {
  const DType through = root->sources[0]->dtype;
  return is_integer(m['a']->dtype) && is_integer(through) && is_integer(root->dtype) &&
         size_of(through) >= size_of(root->dtype);
}

constexpr RuleDomain kAny = RuleDomain::Any, kInteger = RuleDomain::Integer, kBool = RuleDomain::Bool,
                     kFloat = RuleDomain::Float;

constexpr GraphRule kRules[] = {
    // integers
    {"add-zero", kInteger, "Add(a, 0)", "a"},
    {"add-negated", kInteger, "Add(a, Neg(a))", "0"},
    {"add-constants", kInteger, "Add(Add(x, A), B)", "Add(x, Add(A, B))"},
    {"mul-zero", kInteger, "Mul(a, 0)", "0"},
    {"mul-one", kInteger, "Mul(a, 1)", "a"},
    {"mul-constants", kInteger, "Mul(Mul(x, A), B)", "Mul(x, Mul(A, B))"},
    {"mul-neg-constant", kInteger, "Mul(Neg(x), A)", "Mul(x, Neg(A))"},
    {"max-constants", kInteger, "Max(Max(x, A), B)", "Max(x, Max(A, B))"},
    {"idiv-one", kInteger, "IDiv(a, 1)", "a"},
    {"mod-one", kInteger, "Mod(a, 1)", "0"},
    {"shl-zero", kInteger, "Shl(a, 0)", "a"},
    {"shr-zero", kInteger, "Shr(a, 0)", "a"},
    {"ne-self-integer", kInteger, "CmpNe(a, a)", "0"},
    {"and-self-integer", kInteger, "And(a, a)", "a"},
    {"or-self-integer", kInteger, "Or(a, a)", "a"},
    {"xor-self-integer", kInteger, "Xor(a, a)", "0"},
    {"and-zero-integer", kInteger, "And(a, 0)", "0"},
    {"or-zero-integer", kInteger, "Or(a, 0)", "a"},
    {"xor-zero-integer", kInteger, "Xor(a, 0)", "a"},
    {"and-ones", kInteger, "And(x, A)", "x", &is_all_ones},
    {"or-ones", kInteger, "Or(x, A)", "A", &is_all_ones},
    {"xor-constants", kInteger, "Xor(Xor(x, A), B)", "Xor(x, Xor(A, B))"},
    // bool
    {"ne-self", kBool, "CmpNe(a, a)", "0"},
    {"and-self", kBool, "And(a, a)", "a"},
    {"or-self", kBool, "Or(a, a)", "a"},
    {"xor-self", kBool, "Xor(a, a)", "0"},
    {"and-false", kBool, "And(a, 0)", "0"},
    {"and-true", kBool, "And(a, 1)", "a"},
    {"or-false", kBool, "Or(a, 0)", "a"},
    {"or-true", kBool, "Or(a, 1)", "1"},
    {"xor-false", kBool, "Xor(a, 0)", "a"},
    {"not-not", kBool, "Xor(Xor(a, 1), 1)", "a"},
    {"ne-false", kBool, "CmpNe(a, 0)", "a"},
    {"where-as-bool", kBool, "Where(c, 1, 0)", "c"},
    // floats
    {"add-minus-zero", kFloat, "Add(x, A)", "x", &is_minus_zero},
    {"mul-one-float", kFloat, "Mul(a, 1)", "a"},
    {"div-exact", kFloat, "Div(x, A)", "Mul(x, Div(1, A))", &has_exact_inverse},
    {"mul-neg-constant-float", kFloat, "Mul(Neg(x), A)", "Mul(x, Neg(A))"},
    {"neg-mul-constant", kFloat, "Neg(Mul(x, A))", "Mul(x, Neg(A))"},
    {"mul-neg-neg", kFloat, "Mul(Neg(a), Neg(b))", "Mul(a, b)"},
    {"trunc-trunc", kFloat, "Trunc(Trunc(a))", "Trunc(a)"},
    // all
    {"neg-neg", kAny, "Neg(Neg(a))", "a"},
    {"max-self", kAny, "Max(a, a)", "a"},
    {"lt-self", kAny, "CmpLt(a, a)", "0"},
    {"where-true", kAny, "Where(1, a, b)", "a"},
    {"where-false", kAny, "Where(0, a, b)", "b"},
    {"where-same", kAny, "Where(c, a, a)", "a"},
    {"where-not", kAny, "Where(Xor(c, 1), a, b)", "Where(c, b, a)"},
    {"where-inside-true", kAny, "Where(c, Where(c, a, b), d)", "Where(c, a, d)"},
    {"where-inside-false", kAny, "Where(c, a, Where(c, b, d))", "Where(c, a, d)"},
    {"cast-exact", kAny, "Cast(Cast(a))", "Cast(a)", &inner_cast_is_exact},
    {"cast-low-bits", kAny, "Cast(Cast(a))", "Cast(a)", &inner_cast_keeps_low_bits},
    {"bitcast-bitcast", kAny, "Bitcast(Bitcast(a))", "Bitcast(a)"},
};

// Order doesn't matter to these, to the bit; nor to sums and products of integers.
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

// The largest of copies is one of them: axes that a view only repeats are not reduced.
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

// Axes of a node along which all its elements are the same, because a view only repeats them.
std::vector<bool> repeated_axes(const NodeRef& n) {
  std::vector<bool> repeated(n->shape.size(), n->op == Op::Const);
  if (n->op != Op::View) return repeated;
  const View& v = std::get<View>(n->attr);
  for (size_t k = 0; k < repeated.size(); ++k)
    repeated[k] = v.strides()[k] == Expr(0) && (!v.has_mask() || v.mask()[k] == Interval{0, v.shape()[k]});
  return repeated;
}

// Compute, then repeat: an elementwise op whose sources are all repeated along an axis is done once along it.
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
  // What has a nest of its own is stored row-major anyway.
  if (n->op != Op::Contiguous) return {};
  const Op op = n->sources[0]->op;
  return op == Op::Reduce || op == Op::Scatter || op == Op::Gather || op == Op::Transform ? n->sources[0]
                                                                                          : NodeRef{};
}

// The mark of a function with a derivative of its own has served once derivatives are taken.
NodeRef function_value(const NodeRef& n) { return n->op == Op::Function ? n->sources[0] : NodeRef{}; }

constexpr StructuralRule kStructural[] = {
    {"function-value", &function_value},       {"reduce-reduce", &merge_reductions},
    {"reduce-constant", &reduce_constant},     {"reduce-repeated", &reduce_repeated},
    {"repeat-afterwards", &repeat_afterwards}, {"contiguous-computed", &contiguous_of_computed},
};

} // namespace

std::span<const GraphRule> graph_rules() { return kRules; }
std::span<const StructuralRule> structural_rules() { return kStructural; }

} // namespace lathe::graph
