#pragma once
#include "ast/ast.hpp"

namespace lathe::ast {

/// Gives vector loops that write to arrays in registers all of their lanes, where no one reads what the lanes
/// past their end write; loads from memory are guarded by that end. For targets with masked loads.
Kernel fill_vectors(const Kernel&);

} // namespace lathe::ast
