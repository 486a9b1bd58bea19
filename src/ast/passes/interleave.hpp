#pragma once
#include "ast/ast.hpp"

namespace lathe::ast {

inline constexpr size_t kMostTogether = 4; // copies; each occupies a few registers
inline constexpr size_t kLeastSteps = 12;  // operations of a copy; shorter copies overlap by themselves

/// The kernel in which neighbouring copies of a long f32 function, as unrolling leaves them, advance
/// together, operation by operation. Each copy is a full vector. The operations and their operands stay the
/// same.
Kernel interleave_copies(const Kernel&);

} // namespace lathe::ast
