#pragma once
#include "ast/ast.hpp"

namespace lathe::ast {

/// Lets full vectors of a long f32 function that stand one after the other, as unrolling leaves them, advance
/// together, operation by operation. The same operations on the same operands.
Kernel interleave_copies(const Kernel&);

} // namespace lathe::ast
