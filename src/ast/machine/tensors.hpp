#pragma once
#include "ast/machine/forms.hpp"

namespace lathe::ast {

/// Most tiles of the array that tile registers hold at a time. The other registers take operands.
inline constexpr int kTileRegisters = 8, kMostTileAccumulators = 6;

/// The kernel with each nest of tensor loops in the form that one of the target's instructions computes: its
/// store names the instruction. Sums of instructions on tiles stay in tile registers, set to 0 and copied to
/// an array by nests of two tensor loops. All other nests of tensor loops become vector and serial loops.
Kernel settle_tensors(const Kernel& kernel, const VectorForms& forms);

} // namespace lathe::ast
