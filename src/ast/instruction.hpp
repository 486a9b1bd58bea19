#pragma once
#include "ast/ast.hpp"

namespace lathe::ast {

/// The instruction that multiplies and adds what the store combines into its element; nothing if none does.
std::optional<Instruction> instruction_for(const Store& store);

} // namespace lathe::ast
