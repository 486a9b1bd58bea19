// The parts of verify().
#pragma once
#include "ast/ast.hpp"

namespace lathe::ast {

/// What is wrong with an elementwise op on these sources; empty if nothing.
std::string operand_fault(Op op, DType dtype, const std::vector<ValueRef>& sources);

/// Whether 0 <= index < extent wherever all of `guards` hold, for all values of the variables.
bool proves_in_bounds(Expr index, Expr extent, const std::vector<Expr>& guards);

/// Why two iterations of a parallel, group, local or vector loop may touch the same element, one of them
/// writing it; empty if they can't. Sets `statement` to the Store at fault.
std::string find_race(const For& loop, const Stmt** statement);

} // namespace lathe::ast
