// The work of stores: machine instructions, registers, and the cycles that one iteration waits for another.
#pragma once
#include "search/cost/loops_around.hpp"
#include "search/machine/target.hpp"

namespace lathe::search {

/// Adds the work of the store, with the unrolled and vector loops right around it, to the body that it stands
/// in, and records its accesses. `goes_on`: it stores to the same buffer as the store before it in its body,
/// with which it then shares the values that both need.
void count_store(const ast::Store& store, bool goes_on, const Target& target, LoopsAround& loops);

} // namespace lathe::search
