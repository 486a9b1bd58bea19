// The order in which a program's kernels run, as far as it is free: as the plan has it, or so that little
// memory is alive at a time.
#pragma once
#include "search/moves/plan.hpp"

namespace lathe::pipeline {

/// The plan with its kernels in whichever order needs the smaller arena; as it was where both need the same.
search::Plan in_memory_order(search::Plan plan);

} // namespace lathe::pipeline
