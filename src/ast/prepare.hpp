#pragma once
#include "ast/ast.hpp"

namespace lathe::ast {

/// Runs the iterations of serial loops in which all guards that depend on them hold apart from the first and
/// last ones, so that only those keep the guards.
Kernel peel_guards(const Kernel&);

/// A scheduled kernel in the form that renderers take: partition_tails, peel_guards, expand_unrolled,
/// keep_accumulators and expand_math, one after the other.
Kernel prepare(const Kernel& scheduled);

} // namespace lathe::ast
