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

/// Fills `moved` with one index per dimension of `source` (none of size 1). Else: the dimension that an axis
/// leaves, or source.size() if some axis moves along none.
std::optional<size_t> index_by_group(const View& view, const Shape& source, const std::vector<Expr>& index,
                                     std::vector<Expr>& moved) {
  const std::vector<Expr> units = row_major_strides(source);
  const size_t rank = source.size();
  moved.assign(rank, Expr(0));
  std::vector<Expr> lowest(rank), highest(rank); // without the offset; bounds hold inside the mask
  Expr first = view.offset();                    // flat offset of the lowest element inside the mask
  for (size_t k = 0; k < index.size(); ++k) {
    const Expr stride = view.strides()[k];
    if (stride.is_const(0) || view.shape()[k].is_const(1)) continue;
    bool found = false;
    for (size_t d = 0; d < rank && !found; ++d) {
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
    if (!found) return rank;
  }
  const std::vector<Expr> start = delinearise(first, source);
  for (size_t d = rank; d-- > 0;) {
    if (!proves_lt(start[d] + (highest[d] - lowest[d]), source[d])) return d;
    moved[d] = moved[d] - lowest[d] + start[d];
  }
  return {};
}

} // namespace

std::optional<std::vector<Expr>> index_by_dimension(const View& view, const Shape& source,
                                                    const std::vector<Expr>& index) {
  // Dimensions that one axis of the view runs through together (a reshape of theirs) count as one.
  std::vector<size_t> first_of; // each group's first dimension in `source`
  Shape groups;
  for (size_t d = 0; d < source.size(); ++d) {
    if (source[d].is_const(1)) continue;
    first_of.push_back(d);
    groups.push_back(source[d]);
  }
  const Shape single = groups;
  std::vector<size_t> members(groups.size(), 1);
  std::vector<Expr> moved;
  for (;;) {
    const auto overrun = index_by_group(view, groups, index, moved);
    if (!overrun) break;
    if (*overrun == 0 || *overrun >= groups.size()) return {};
    const auto at = static_cast<long>(*overrun);
    groups[*overrun - 1] = groups[*overrun - 1] * groups[*overrun];
    members[*overrun - 1] += members[*overrun];
    groups.erase(groups.begin() + at);
    members.erase(members.begin() + at);
  }
  std::vector<Expr> out(source.size());
  size_t d = 0;
  for (size_t g = 0; g < groups.size(); ++g) {
    const Shape inside(single.begin() + static_cast<long>(d),
                       single.begin() + static_cast<long>(d + members[g]));
    const std::vector<Expr> parts =
        members[g] == 1 ? std::vector<Expr>{moved[g]} : delinearise(moved[g], inside);
    for (const Expr part : parts) out[first_of[d++]] = part;
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

} // namespace lathe::lower
