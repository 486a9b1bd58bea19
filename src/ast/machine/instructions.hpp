#pragma once
#include "ast/ast.hpp"
#include "ast/machine/forms.hpp"

namespace lathe::ast {

/// The kernel with Store::by set to an instruction of the target wherever one applies.
Kernel choose_instructions(const Kernel& kernel, const VectorForms& forms);

} // namespace lathe::ast
