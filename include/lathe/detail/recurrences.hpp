// The recurrences that tensors are made of.
#pragma once
#include <vector>

#include "lathe/tensor.hpp"

namespace lathe::detail {

/// Returns the number of steps of each recurrence that the tensors depend on, those inside of others too.
std::vector<Expr> steps_of(const std::vector<Tensor>& tensors);

} // namespace lathe::detail
