// What a dialect can do with vectors.
#include "render/c_family.hpp"

namespace lathe::render {

ast::VectorForms forms_of(const Dialect& dialect) {
  ast::VectorForms forms;
  forms.bytes = dialect.vector_bytes();
  forms.parts = forms.halves = dialect.lane_access() != nullptr;
  forms.ragged = forms.gathers = false;
  forms.scales = dialect.has_scale();
  forms.reads_between = dialect.loads_between();
  for (const Instruction instruction : dialect.tensor_instructions())
    forms.instructions.push_back(instruction);
  forms.has_op = [&dialect](const ast::Value& v) {
    const bool bits_of_half =
        v.op == Op::Bitcast && (is_half(v.dtype) || is_half(v.sources[0]->dtype)); // floats in registers
    return !bits_of_half && OpPrinter::has_vector_form(dialect, v.op);
  };
  return forms;
}

} // namespace lathe::render
