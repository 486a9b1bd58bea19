#include "lower/access.hpp"

#include <algorithm>
#include <fmt/format.h>

#include "view/dimensions.hpp"
#include "view/size.hpp"

namespace lathe::lower {

std::optional<std::vector<Expr>> index_by_dimension(const View& view, const Shape& source,
                                                    const std::vector<Expr>& index) {
  const auto walk = walk_dimensions(view, source);
  if (!walk) return {};
  std::vector<Expr> moved = walk->start;
  for (size_t k = 0; k < index.size(); ++k)
    if (const auto& step = walk->steps[k])
      moved[step->dimension] = moved[step->dimension] + index[k] * step->count;
  std::vector<Expr> out(source.size());
  size_t d = 0; // in the source
  for (size_t g = 0; g < moved.size(); ++g) {
    Shape inside;
    std::vector<size_t> places;
    for (; inside.size() < walk->members[g]; ++d) {
      if (source[d].is_const(1)) continue;
      inside.push_back(source[d]);
      places.push_back(d);
    }
    const std::vector<Expr> parts =
        inside.size() == 1 ? std::vector<Expr>{moved[g]} : delinearise(moved[g], inside);
    for (size_t j = 0; j < parts.size(); ++j) out[places[j]] = parts[j];
  }
  return out;
}

Element resolve(graph::NodeRef node, std::vector<Expr> index) {
  Element element{std::move(node), std::move(index), {}};
  while (element.node->op == Op::View) {
    const View& view = std::get<View>(element.node->attr);
    const graph::NodeRef source = element.node->sources[0];
    const Access access = view.access(element.index);
    for (const Expr guard : access.valid) {
      if (guard.is_const(0)) element.never = true;
      if (guard.is_const()) continue;
      if (std::find(element.guards.begin(), element.guards.end(), guard) == element.guards.end())
        element.guards.push_back(guard);
    }
    auto direct = index_by_dimension(view, source->shape, element.index);
    element.index = direct ? std::move(*direct) : delinearise(access.offset, source->shape);
    element.node = source;
  }
  for (size_t d = 0; d < element.index.size(); ++d)
    if (element.node->shape[d].is_const(1)) element.index[d] = 0;
  return element;
}

std::vector<graph::NodeRef> with_short_indices(const std::vector<graph::NodeRef>& nodes) {
  const auto is_long = [](const graph::NodeRef& view) {
    std::vector<Expr> index;
    for (size_t d = 0; d < view->shape.size(); ++d)
      index.push_back(loop_var(static_cast<int>(d), fmt::format("i{}", d), view->shape[d]));
    const Element element = resolve(view, std::move(index));
    return is_too_long(element.index, element.guards);
  };
  return graph::rebuild(nodes, [&](const graph::NodeRef&, graph::NodeRef node) {
    // A copy shortens the index of stacked views, not that of a single view.
    if (node->op != Op::View || node->sources[0]->op != Op::View || !is_long(node)) return node;
    graph::Node copy;
    copy.op = Op::Contiguous;
    copy.dtype = node->dtype;
    copy.shape = node->sources[0]->shape;
    copy.sources = {node->sources[0]};
    return graph::with_sources(node, {intern(std::move(copy))});
  });
}

} // namespace lathe::lower
