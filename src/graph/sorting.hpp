// Sorting the rows of a tensor, and choosing the elements that come first in them. Rows lie along the last
// axis. Order is stable, and NaN is the largest number.
#pragma once
#include "graph/tensor_impl.hpp"

namespace lathe::graph {

/// Signed integers with the order that the elements are sorted in: equal elements have equal keys.
Tensor sort_keys(const Tensor& x, bool descending);

/// The positions of each row's elements in sorted order: i32 or i64.
Tensor order_of_rows(const Tensor& x, bool descending);

/// Whether rows of this size are sorted by the digits of keys: they are long, and their size is known.
bool sorts_by_digits(Expr size);

/// The same order, of such rows; i32.
Tensor order_by_digits(const Tensor& x, bool descending);

/// The positions of the `k` keys of each row that come first in ascending order, in no order but ascending
/// positions; i32. The size of a row is known.
Tensor choose_by_digits(const Tensor& keys, int64_t k);

/// Rows of a known size as [..., block, element]. `fill` fills the last block.
Tensor in_blocks(const Tensor& rows, int64_t block, const Tensor& fill);

/// The axis that `op` sorts along. Error(Shape) where x is a scalar or has no such axis.
int sorted_axis(std::string_view op, const Tensor& x, int axis);

} // namespace lathe::graph
