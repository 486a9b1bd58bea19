// Makes kernels equal that differ only in names and ids. print() and caches use the result.
#pragma once
#include "ast/ast.hpp"

namespace lathe::ast {

/// The kernel with loop and buffer ids numbered in their order of appearance. With `keep_names` names stay
/// readable and become unique where they could be confused (a loop among those around it, a buffer in its
/// kernel). Else every kernel of this structure gets the same names, those of shape variables included.
Kernel canonical(const Kernel& kernel, bool keep_names);

/// Text of one statement without its body, as print() writes it; for messages.
std::string print_line(const Stmt& stmt);

/// `name`, each character that print() can't write replaced.
std::string printable(std::string_view name);

} // namespace lathe::ast
