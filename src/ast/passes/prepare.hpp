#pragma once
#include "ast/ast.hpp"

namespace lathe::ast {

/// Splits the range of loops whose variable decides a min() in an inner extent, so that the main part has
/// constant extents and only the tail is ragged.
Kernel partition_tails(const Kernel&);
/// Replaces Unroll loops by copies of their body (ragged ones become Serial).
Kernel expand_unrolled(const Kernel&);
/// Keeps what a serial loop combines into the same element in registers, one per lane, and combines it into
/// the element after the loop. Not in kernels with local loops.
Kernel keep_accumulators(const Kernel&);
/// Replaces Exp2, Log2, Sin of f32 by polynomial sequences of table ops, so that every renderer vectorises
/// them and gives the same bits. Stated errors: docs/numbers.md.
Kernel expand_math(const Kernel&);

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
