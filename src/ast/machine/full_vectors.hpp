#pragma once
#include "ast/ast.hpp"

namespace lathe::ast {

/// The kernel in which ragged vector loops that write to arrays in registers run all of their lanes, if
/// nothing reads the elements that lanes past the end write. A guard keeps loads from memory inside the end.
/// For targets with masked loads.
Kernel fill_vectors(const Kernel&);

} // namespace lathe::ast
