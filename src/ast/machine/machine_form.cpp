#include "ast/machine/machine_form.hpp"

#include "ast/machine/access.hpp"
#include "ast/machine/full_vectors.hpp"
#include "ast/machine/instructions.hpp"
#include "ast/machine/tensors.hpp"
#include "ast/machine/vectors.hpp"

namespace lathe::ast {

Kernel machine_form(const Kernel& prepared, const VectorForms& forms) {
  // Filled vectors load parts of vectors, so the target must support that.
  const Kernel tensors = settle_tensors(prepared, forms);
  const Kernel filled = forms.parts ? fill_vectors(tensors) : tensors;
  return say_accesses(choose_instructions(settle_vectors(filled, forms), forms), forms);
}

} // namespace lathe::ast
