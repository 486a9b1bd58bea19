#include "view/dimensions.hpp"

namespace lathe {
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

/// Fills start and steps for walk.sizes and returns nothing. If that fails, returns the dimension that an
/// axis leaves, or the number of dimensions if some axis moves along none.
std::optional<size_t> find_steps(const View& view, DimensionWalk& walk) {
  const std::vector<Expr> units = row_major_strides(walk.sizes);
  const size_t rank = walk.sizes.size();
  std::vector<Expr> lowest(rank), highest(rank); // without the offset; bounds hold inside the mask
  Expr first = view.offset();                    // flat offset of the lowest element inside the mask
  walk.steps.assign(view.shape().size(), std::nullopt);
  for (size_t k = 0; k < view.shape().size(); ++k) {
    const Expr stride = view.strides()[k];
    if (stride.is_const(0) || view.shape()[k].is_const(1)) continue;
    for (size_t d = 0; d < rank && !walk.steps[k]; ++d) {
      const auto steps = multiple_of(stride, units[d]);
      if (!steps) continue;
      walk.steps[k] = DimensionStep{d, *steps};
      const Interval& in = view.mask()[k];
      const Expr low = (*steps > 0 ? in.begin : in.end - 1) * *steps;
      const Expr high = (*steps > 0 ? in.end - 1 : in.begin) * *steps;
      lowest[d] = lowest[d] + low;
      highest[d] = highest[d] + high;
      first = first + low * units[d];
    }
    if (!walk.steps[k]) return rank;
  }
  walk.start = delinearise(first, walk.sizes);
  for (size_t d = rank; d-- > 0;) {
    if (!proves_lt(walk.start[d] + (highest[d] - lowest[d]), walk.sizes[d])) return d;
    walk.start[d] = walk.start[d] - lowest[d];
  }
  return {};
}

} // namespace

std::optional<DimensionWalk> walk_dimensions(const View& view, const Shape& source) {
  DimensionWalk walk;
  for (const Expr size : source)
    if (!size.is_const(1)) walk.sizes.push_back(size);
  walk.members.assign(walk.sizes.size(), 1);
  for (;;) {
    const auto overrun = find_steps(view, walk);
    if (!overrun) return walk;
    if (*overrun == 0 || *overrun >= walk.sizes.size()) return {};
    const auto at = static_cast<long>(*overrun);
    walk.sizes[*overrun - 1] = walk.sizes[*overrun - 1] * walk.sizes[*overrun];
    walk.members[*overrun - 1] += walk.members[*overrun];
    walk.sizes.erase(walk.sizes.begin() + at);
    walk.members.erase(walk.members.begin() + at);
  }
}

} // namespace lathe
