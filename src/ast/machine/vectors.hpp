#pragma once
#include "ast/ast.hpp"
#include "ast/machine/forms.hpp"

namespace lathe::ast {

/// Every vector loop as loops of as many lanes as the target's vectors have, a power of two; where something
/// in it has no form with lanes, or two lanes may write one element, as a serial loop. What they do stays the
/// same.
Kernel settle_vectors(const Kernel& kernel, const VectorForms& forms);

} // namespace lathe::ast
