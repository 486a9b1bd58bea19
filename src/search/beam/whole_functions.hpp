#pragma once
#include "search/moves/plan.hpp"

namespace lathe::search {

/// Whether a kernel that computes `stage` apart from `user` would round a piece of a function.
bool is_piece_of_function(const graph::Node& stage, const graph::Node& user);

/// Whether the plan has such a kernel, or a piece in scratch of one.
bool splits_function(const Plan& plan);

/// The plan, from which a search starts, with the pieces of functions that ast/passes/math.cpp recognises
/// inlined: what an exponential takes, what a logarithm or a tangent goes into. By itself a piece is rounded,
/// which costs an exponential most of its digits. A search nearly always inlines them of its own accord, and
/// finds more if it is left to.
Plan with_whole_functions(const Plan& start, const Target& target);

} // namespace lathe::search
