// Sorting long rows, in work that grows with their length.
#pragma once
#include "graph/tensor_impl.hpp"

namespace lathe::graph {

/// Signed integers with the order that the elements are sorted in: NaN is the largest, equal elements have equal keys.
Tensor sort_keys(const Tensor& x, bool descending);

/// Whether rows of this size, along the last axis, are sorted here: they are long, and their size is known.
bool sorts_by_digits(Expr size);

/// The positions of each row's elements in sorted order, as i32: stable, NaN the largest. Rows lie along the last axis.
Tensor order_by_digits(const Tensor& x, bool descending);

/// Whether some of a row of this size are chosen here before they are sorted.
bool chooses_by_digits(Expr size);

/// The positions of the `k` elements of each row that come first in that order, in no order but ascending positions; i32.
Tensor choose_by_digits(const Tensor& x, int64_t k, bool descending);

} // namespace lathe::graph
