#include "ast/instruction.hpp"

namespace lathe::ast {

std::optional<Instruction> instruction_for(const Store& store) {
  const Value& value = *store.value;
  if (store.combine != Op::Add || store.scatter || value.op != Op::Mul) return {};
  if (!is_float(value.dtype) || is_half(value.dtype)) return {};
  if (std::holds_alternative<Rounded>(value.attr)) return {};
  return Instruction::MultiplyAdd;
}

} // namespace lathe::ast
