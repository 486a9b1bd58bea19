// Indices that are known only at run time: those of Gather and of scatters.
#pragma once
#include <optional>

#include "ast/ast.hpp"

namespace lathe::ast {

/// How far the computed index of a Gather or a scatter goes from one iteration of `loop` to the next, in
/// elements: where it is out of range, it may stay there. Nothing if that depends on data. A target may load
/// or store lanes of step 1 as a vector, of which it leaves out those that are out of range.
std::optional<int64_t> computed_step(const Value& index, Expr loop);

} // namespace lathe::ast
