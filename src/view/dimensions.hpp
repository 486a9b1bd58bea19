// How a view walks through the dimensions of its source, where each of its axes stays within one of them.
#pragma once
#include <optional>
#include <vector>

#include "view/view.hpp"

namespace lathe {

/// An axis of a view moves by `count` (not 0) elements of `dimension` a step.
struct DimensionStep {
  size_t dimension;
  int64_t count;
};

/// The source's dimensions other than those of size 1; neighbours that one axis of the view runs through
/// together (a reshape of theirs) are one. Element (i0, i1, ...) of the view is at
/// start[d] + the sum of i_k * count_k over the axes k that move along d, for every dimension d, and stays
/// inside wherever the mask holds.
struct DimensionWalk {
  Shape sizes;
  std::vector<size_t> members; // how many dimensions of the source each is
  std::vector<Expr> start;
  std::vector<std::optional<DimensionStep>> steps; // per axis of the view; none where it does not move
};

/// Nothing where an axis moves along none of the dimensions, or it can't be proved that all stay inside.
std::optional<DimensionWalk> walk_dimensions(const View& view, const Shape& source);

} // namespace lathe
