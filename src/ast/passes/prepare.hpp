#pragma once
#include "ast/ast.hpp"

namespace lathe::ast {

/// Splits the range of a loop whose variable decides a min() in an inner extent. The main part then has
/// constant extents, and only the tail is ragged.
Kernel partition_tails(const Kernel&);
/// Replaces Unroll loops by copies of their body (ragged ones become Serial).
Kernel expand_unrolled(const Kernel&);
/// If all iterations of a serial loop combine into the same element, combines into registers instead, one per
/// lane, and combines these into the element after the loop. Leaves kernels with local loops as they are.
Kernel keep_accumulators(const Kernel&);
/// Replaces Exp2, Log2, Sin and Cos of f32 and halves by polynomial sequences of table ops, so that every
/// renderer vectorises them and gives the same bits. docs/numbers.md states the errors.
Kernel expand_math(const Kernel&);

/// Cuts serial loops where guards of loads and choices by index change. If a guard holds in some sections and
/// not in others, each section becomes a loop. If a guard holds nearly always, only the first and last
/// iterations keep it.
Kernel peel_guards(const Kernel&);
/// The share of the loop's iterations (or of the copies that unrolling makes) that keep `guard` after
/// peel_guards. An estimate: it looks at one loop and ignores the limit of copies.
double share_guarded(const For& loop, Expr guard);

/// A scheduled kernel in the form that renderers take. Applies partition_tails, peel_guards, expand_unrolled,
/// keep_accumulators, expand_math and interleave_copies, in this order.
Kernel prepare(const Kernel& scheduled);

} // namespace lathe::ast
