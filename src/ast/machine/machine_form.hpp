#pragma once
#include "ast/ast.hpp"
#include "ast/machine/forms.hpp"

namespace lathe::ast {

/// The machine form of a kernel that has been through prepare(): applies fill_vectors (if the target has
/// parts), settle_vectors, choose_instructions and say_accesses, in this order.
Kernel machine_form(const Kernel& prepared, const VectorForms& forms);

} // namespace lathe::ast
