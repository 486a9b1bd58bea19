#pragma once
#include "search/moves/plan.hpp"

namespace lathe::search {

/// Whether a kernel that computes `stage` apart from `user` would round a piece of a function.
bool is_piece_of_function(const graph::Node& stage, const graph::Node& user);

/// Whether a kernel of the plan computes such a piece by itself, as a result or in scratch.
bool splits_function(const Plan& plan);

/// The plan `start` with pieces of functions inlined, for the functions that ast/passes/math.cpp recognises:
/// the argument of an exponential, the base-2 logarithm in a logarithm, the sine and cosine in a tangent. A
/// piece by itself is rounded, which costs an exponential most of its digits. A search nearly always inlines
/// the pieces of its own accord, and finds more if it decides this itself.
Plan with_whole_functions(const Plan& start, const Target& target);

} // namespace lathe::search
