// Reductions of many elements.
//
// Sums of floats: adding terms one after the other loses digits in proportion to their number. A long
// sum is cut into chains of 16 terms, whose results are cut into chains again. Each level adds the error of
// one chain. docs/numbers.md states the bound.
//
// Reductions whose result does not depend on the order: all elements in few results would be the work of one
// thread, and a pass over the data of its own. In parts, they have an outermost loop, as sums in chains have.
#pragma once
#include <vector>

#include "graph/node.hpp"
#include "lathe/tensor.hpp"

namespace lathe::graph {

/// terms; the most that one running sum adds up. Longer sums are cut into chains.
constexpr int64_t kLongestSum = 8192;
/// terms; the same limit for sums of products and of a softmax's exponentials. A cut would keep the loop that
/// sums the terms from computing them.
constexpr int64_t kLongestFusedSum = 65536;

/// reduce_op(Op::Add, x, axes), in chains where the axes have more than `longest` elements. An axis with
/// shape variables is never cut.
Tensor sum_over(const Tensor& x, const std::vector<int>& axes, int64_t longest = kLongestSum);

/// reduce_op(combine, x, axes), where the order of the elements does not change the result: extremes, Or, And,
/// and sums and products of integers. Many elements with few results are reduced in parts first.
Tensor reduce_in_any_order(Op combine, const Tensor& x, const std::vector<int>& axes);

} // namespace lathe::graph
