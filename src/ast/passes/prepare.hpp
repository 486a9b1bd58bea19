#pragma once
#include "ast/ast.hpp"

namespace lathe::ast {

/// Cuts serial loops where guards of loads and choices by index change: those that hold in some sections and
/// not in others have a loop for each; of guards that nearly always hold, only the first and last iterations
/// keep them.
Kernel peel_guards(const Kernel&);
/// The share of the loop's iterations, and of the copies that unrolling it makes, that keep a guard of its
/// body. Of one loop, as though there were no limit to copies: for estimates.
double share_guarded(const For& loop, Expr guard);

/// A scheduled kernel in the form that renderers take: partition_tails, peel_guards, expand_unrolled,
/// keep_accumulators, expand_math and interleave_copies, one after the other.
Kernel prepare(const Kernel& scheduled);

} // namespace lathe::ast
