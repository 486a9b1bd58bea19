// Proofs about expressions where more is known than the bounds of their variables.
#pragma once
#include <vector>

#include "lathe/expr.hpp"

namespace lathe {

/// Whether t <= 0 wherever all of `facts` are <= 0, for all values of the variables. False means that no
/// proof was found.
bool proves_nonpositive(Expr t, const std::vector<Expr>& facts);

} // namespace lathe
