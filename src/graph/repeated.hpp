// Values that are the same at all places of an axis, or everywhere.
#pragma once
#include <optional>
#include <utility>
#include <vector>

#include "graph/node.hpp"

namespace lathe::graph {

/// The node at the first place of each of these axes, if it is known to be the same at all places of them;
/// else null.
inline NodeRef first_along(const NodeRef& node, const std::vector<int>& axes, int nested = 0) {
  constexpr int kMostNested = 12; // elementwise nodes, one above the other: i2 takes 10 to unpack
  std::vector<Expr> begin(node->shape.size(), Expr(0)), end = node->shape;
  for (const int axis : axes) end[static_cast<size_t>(axis)] = 1;
  if (end == node->shape) return node;
  const View first = View::contiguous(node->shape).shrink(begin, end);
  if (node->op == Op::Const) return view(node, first);
  if (node->op == Op::View) {
    const View& v = std::get<View>(node->attr);
    for (const int axis : axes) {
      const auto k = static_cast<size_t>(axis);
      const bool whole = !v.has_mask() || v.mask()[k] == Interval{0, v.shape()[k]};
      if ((v.strides()[k] != Expr(0) && !v.shape()[k].is_const(1)) || !whole) return {};
    }
    return view(node, first);
  }
  if (!is_elementwise(node->op) || nested == kMostNested) return {};
  std::vector<NodeRef> sources;
  for (const NodeRef& s : node->sources) {
    sources.push_back(first_along(s, axes, nested + 1));
    if (!sources.back()) return {};
  }
  return with_sources(node, std::move(sources));
}

/// The number that the node repeats, if it is written out or the only element of data, as folding constants
/// leaves it.
inline std::optional<Scalar> repeated_number(const NodeRef& node) {
  const Node* at = node.get();
  while (at->op == Op::View && !std::get<View>(at->attr).has_mask()) at = at->sources[0].get();
  if (const auto* number = std::get_if<Scalar>(&at->attr)) return *number;
  const auto* input = std::get_if<InputAttr>(&at->attr);
  if (!input || !input->data || !num_elements(at->shape).is_const(1)) return {};
  return Scalar::from_memory(at->dtype, std::as_const(*input->data).data());
}

/// The node repeated over the shape, if all its elements are the same because it is a number or a view
/// repeats one; else null.
inline NodeRef repeated_over(const NodeRef& node, const Shape& shape) {
  if (const Scalar* s = node->op == Op::Const ? const_scalar(node) : nullptr) return constant(*s, shape);
  const std::vector<Expr> still(shape.size(), Expr(0));
  if (num_elements(node->shape).is_const(1)) return view(node, View(shape, still, 0, {}));
  if (node->op != Op::View) return {};
  const View& v = std::get<View>(node->attr);
  if (v.has_mask()) return {};
  for (size_t k = 0; k < v.shape().size(); ++k)
    if (v.strides()[k] != Expr(0) && !v.shape()[k].is_const(1)) return {};
  return view(node->sources[0], View(shape, still, v.offset(), {}));
}

} // namespace lathe::graph
