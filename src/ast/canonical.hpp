// Kernels that differ only in names and ids made equal: what print prints, and caches compare.
#pragma once
#include "ast/ast.hpp"

namespace lathe::ast {

/// Loop and buffer ids become their order of appearance. With `keep_names` names stay readable and become
/// unique where they could be confused (a loop among those around it, a buffer in its kernel); else all
/// names, those of shape variables too, become the same for every kernel of this structure.
Kernel canonical(const Kernel& kernel, bool keep_names);

/// Text of one statement without its body, as print() writes it; for messages.
std::string print_line(const Stmt& stmt);

/// A name with every character that print() can't write replaced.
std::string printable(std::string_view name);

} // namespace lathe::ast
