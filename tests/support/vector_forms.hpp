// Targets of different vectors, for the machine form.
#pragma once
#include <array>

#include "ast/machine/forms.hpp"

namespace lathe::test {

inline ast::VectorForms narrow_vectors() {
  ast::VectorForms forms;
  forms.bytes = 16;
  return forms;
}
/// As OpenCL C has them: whole vectors or none.
inline ast::VectorForms whole_vectors() {
  ast::VectorForms forms;
  forms.parts = forms.halves = forms.ragged = forms.gathers = forms.reads_between = false;
  return forms;
}
inline ast::VectorForms no_vectors() {
  ast::VectorForms forms;
  forms.bytes = 0;
  return forms;
}
inline std::array<ast::VectorForms, 4> all_vector_forms() {
  return {ast::VectorForms(), narrow_vectors(), whole_vectors(), no_vectors()};
}

} // namespace lathe::test
