#pragma once
#include "ast/ast.hpp"
#include "ast/machine/forms.hpp"

namespace lathe::ast {

/// The kernel with the instructions that the target has, where they apply.
Kernel choose_instructions(const Kernel& kernel, const VectorForms& forms);

} // namespace lathe::ast
