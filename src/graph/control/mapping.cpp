#include "graph/control/mapping.hpp"

#include <algorithm>

#include "graph/tensor_impl.hpp"

namespace lathe::graph {

std::vector<Mapped> Mapping::of(const std::vector<NodeRef>& nodes) {
  for (const NodeRef& node : topological_order(nodes)) {
    if (known_.contains(node.get())) continue;
    std::vector<Mapped> sources;
    for (const NodeRef& source : node->sources) sources.push_back(known_.at(source.get()).mapped);
    set(node, made_of(node, sources));
  }
  std::vector<Mapped> made;
  for (const NodeRef& node : nodes) made.push_back(known_.at(node.get()).mapped);
  return made;
}

NodeRef Mapping::along(const Mapped& mapped) const {
  if (mapped.has_axis) return mapped.node;
  Shape once = mapped.node->shape;
  once.insert(once.begin(), Expr(1));
  return view(mapped.node, View::contiguous(once).expand(with_axis(mapped.node->shape)));
}

Shape Mapping::with_axis(const Shape& shape) const {
  Shape longer{size_};
  longer.insert(longer.end(), shape.begin(), shape.end());
  return longer;
}

Mapped Mapping::made_of(const NodeRef& node, const std::vector<Mapped>& sources) {
  const auto has_axis = [](const Mapped& source) { return source.has_axis; };
  if (node->op == Op::Scan) {
    const Recurrence recurrence = recurrence_of(node);
    const NodeRef key = recurrence.result(0);
    auto& [held, mapped] = recurrences_[key.get()];
    if (!held) {
      held = key;
      mapped = mapped_recurrence(recurrence, sources, size_);
    }
    return mapped.result(static_cast<size_t>(std::get<ScanAttr>(node->attr).result));
  }
  if (std::none_of(sources.begin(), sources.end(), has_axis)) {
    std::vector<NodeRef> same;
    for (const Mapped& source : sources) same.push_back(source.node);
    return {with_sources(node, std::move(same)), false};
  }
  if (node->op == Op::Gather) return {gathered(*node, sources), true};
  if (node->op == Op::Scatter) return {scattered(*node, sources), true};
  std::vector<NodeRef> all;
  for (const Mapped& source : sources) all.push_back(along(source));
  const auto behind_the_axis = [](std::vector<int> axes) {
    for (int& axis : axes) ++axis;
    return axes;
  };
  switch (node->op) {
  case Op::View: return {view_of(std::get<View>(node->attr), all[0], node->sources[0]->shape), true};
  case Op::Reduce: {
    const auto& attr = std::get<ReduceAttr>(node->attr);
    return {reduce(attr.combine, all[0], behind_the_axis(attr.axes)), true};
  }
  case Op::Transform: {
    const auto& attr = std::get<TransformAttr>(node->attr);
    return {transform(all[0], {behind_the_axis(attr.axes), attr.matrices}), true};
  }
  default: // elementwise, Contiguous and Function, whose rules take any number of axes in front
    return {with_sources(node, std::move(all)), true};
  }
}

/// `view` in each element; `shape` is that of the source in one of them.
NodeRef Mapping::view_of(const View& view, const NodeRef& source, const Shape& shape) const {
  std::vector<Expr> strides{num_elements(shape)};
  strides.insert(strides.end(), view.strides().begin(), view.strides().end());
  std::vector<Interval> mask;
  if (view.has_mask()) {
    mask.push_back({0, size_});
    mask.insert(mask.end(), view.mask().begin(), view.mask().end());
  }
  return graph::view(source, View(with_axis(view.shape()), strides, view.offset(), mask));
}

NodeRef Mapping::flat(const Mapped& mapped) const {
  const NodeRef all = along(mapped);
  return view(all, View::contiguous({num_elements(all->shape)}));
}

/// Indices into elements of `count` places as indices into all of them, of `shape` with the axis. What is out
/// of range in its element is out of range of all.
NodeRef Mapping::flat_index(const Mapped& index, Expr count, const Shape& shape) const {
  const Tensor at = wrap(index.node).cast(DType::I64), places = size_scalar(count);
  Shape first(shape.size() + 1, Expr(1));
  first[0] = size_;
  const Tensor begin = index_along(0, first) * places, none = number(-1, DType::I64);
  const Tensor is_inside = (at >= number(0, DType::I64)) & (at < places);
  return node_of(broadcast_to(lathe::where(is_inside, at + begin, none), with_axis(shape)));
}

NodeRef Mapping::gathered(const Node& node, const std::vector<Mapped>& sources) const {
  if (!sources[0].has_axis) return gather(sources[0].node, sources[1].node);
  return gather(flat(sources[0]), flat_index(sources[1], node.sources[0]->shape[0], node.shape));
}

NodeRef Mapping::scattered(const Node& node, const std::vector<Mapped>& sources) const {
  const NodeRef index = flat_index(sources[1], node.shape[0], node.sources[1]->shape);
  const NodeRef made =
      scatter(flat(sources[0]), index, along(sources[2]), std::get<ScatterAttr>(node.attr).combine);
  return view(made, View::contiguous(with_axis(node.shape)));
}

} // namespace lathe::graph
