// How a view walks through the dimensions of its source, if each axis of the view stays within one dimension.
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

/// A walk through the source's dimensions, except those of size 1. Neighbouring dimensions that one axis of
/// the view runs through (a reshape of theirs) count as one. In every dimension d, element (i0, i1, ...) of
/// the view is at start[d] + the sum of i_k * count_k over the axes k that move along d. It stays inside d
/// wherever the mask holds.
struct DimensionWalk {
  Shape sizes;
  std::vector<size_t> members; // how many dimensions of the source each is
  std::vector<Expr> start;
  std::vector<std::optional<DimensionStep>> steps; // per axis of the view; none where it does not move
};

/// The walk of the view. Nothing if an axis moves along none of the dimensions, or if it can't be proved that
/// all axes stay inside theirs.
std::optional<DimensionWalk> walk_dimensions(const View& view, const Shape& source);

} // namespace lathe
