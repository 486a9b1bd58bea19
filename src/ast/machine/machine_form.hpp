#pragma once
#include "ast/ast.hpp"
#include "ast/machine/forms.hpp"

namespace lathe::ast {

/// A kernel that has been through prepare(), in the form that a renderer spells: fill_vectors,
/// settle_vectors, choose_instructions and say_accesses, one after the other.
Kernel machine_form(const Kernel& prepared, const VectorForms& forms);

} // namespace lathe::ast
