// The work of tensor loops: products that one instruction of the target computes, and copies for them.
#pragma once
#include <optional>

#include "search/cost/loops_around.hpp"
#include "search/machine/target.hpp"

namespace lathe::search {

/// The work of the store in the innermost of `loops`, with the copies that unrolling makes of it: the loops
/// of depth `begin` and beyond are straight-line code. Records its accesses. Nothing, if the store is in no
/// tensor loops or no instruction of the target computes them.
std::optional<Work> tensor_work(size_t begin, const Target& target, LoopsAround& loops);

} // namespace lathe::search
