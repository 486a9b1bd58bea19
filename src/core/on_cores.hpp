// Independent pieces of one compilation on all cores of the machine.
//
//   on_cores(regions.size(), [&](size_t k) { found[k] = search(regions[k]); });
//
// Each piece writes to a place of its own, so that the results do not depend on which thread did what.
#pragma once
#include <cstddef>
#include <functional>

namespace lathe {

/// Calls piece(k) once for every k in [0, count), on the calling thread and on one more thread for each other
/// core. Returns when all calls are done. If calls throw, throws what the one with the smallest k threw. A
/// call inside of a piece does everything on the thread that calls.
void on_cores(size_t count, const std::function<void(size_t)>& piece);

} // namespace lathe
