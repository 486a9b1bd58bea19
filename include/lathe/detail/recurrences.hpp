// The recurrences that tensors are made of.
#pragma once
#include <vector>

#include "lathe/tensor.hpp"

namespace lathe::detail {

/// Returns the shape variables that are the number of steps of a recurrence which the tensors depend on, but for
/// those of axes that are padded, as convolutions along the steps pad them.
std::vector<Expr> step_counts(const std::vector<Tensor>& tensors);

} // namespace lathe::detail
