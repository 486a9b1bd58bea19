#pragma once
#include "ast/ast.hpp"
#include "ast/machine/forms.hpp"

namespace lathe::ast {

/// The kernel with each vector loop cut into vector loops of a width that the target has, a power of two. A
/// loop becomes serial if one of its values has no vector form, or if two lanes may write one element. The
/// results stay the same.
Kernel settle_vectors(const Kernel& kernel, const VectorForms& forms);

} // namespace lathe::ast
