#include "lower/access.hpp"

#include <algorithm>

namespace lathe::lower {
namespace {

/// The constant c with stride == c * unit.
std::optional<int64_t> multiple_of(Expr stride, Expr unit) {
  if (unit.is_const(0)) return {};
  if (stride == unit) return 1;
  if (stride == -unit) return -1;
  if (unit.is_const() && !stride.is_const()) return {};
  const Expr quotient = floordiv(stride, unit);
  if (!quotient.is_const() || quotient * unit != stride) return {};
  return quotient.value();
}

} // namespace

std::optional<std::vector<Expr>> index_by_dimension(const View& view, const Shape& source,
                                                    const std::vector<Expr>& index) {
  const std::vector<Expr> units = row_major_strides(source);
  const size_t rank = source.size();
  std::vector<Expr> moved(rank), lowest(rank),
      highest(rank);          // without the offset; bounds hold inside the mask
  Expr first = view.offset(); // flat offset of the lowest element inside the mask
  for (size_t k = 0; k < index.size(); ++k) {
    const Expr stride = view.strides()[k];
    if (stride.is_const(0) || view.shape()[k].is_const(1)) continue;
    bool found = false;
    for (size_t d = 0; d < rank && !found; ++d) {
      if (source[d].is_const(1)) continue;
      const auto steps = multiple_of(stride, units[d]);
      if (!steps) continue;
      found = true;
      const Interval& in = view.mask()[k];
      const Expr low = (*steps > 0 ? in.begin : in.end - 1) * *steps;
      const Expr high = (*steps > 0 ? in.end - 1 : in.begin) * *steps;
      moved[d] = moved[d] + index[k] * *steps;
      lowest[d] = lowest[d] + low;
      highest[d] = highest[d] + high;
      first = first + low * units[d];
    }
    if (!found) return {};
  }
  const std::vector<Expr> start = delinearise(first, source);
  for (size_t d = 0; d < rank; ++d) {
    if (source[d].is_const(1)) continue;
    if (!proves_lt(start[d] + (highest[d] - lowest[d]), source[d])) return {};
    moved[d] = moved[d] - lowest[d] + start[d];
  }
  return moved;
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

} // namespace lathe::lower
