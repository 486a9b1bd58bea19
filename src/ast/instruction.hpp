#pragma once
#include "ast/ast.hpp"

namespace lathe::ast {

/// The instruction that can compute the store, which adds a product to its element; nothing if none can.
std::optional<Instruction> instruction_for(const Store& store);

} // namespace lathe::ast
