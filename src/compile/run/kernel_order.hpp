// The order in which a program's kernels run: the plan's, or another legal order that needs less memory.
#pragma once
#include "search/moves/plan.hpp"

namespace lathe::pipeline {

/// Returns the plan with its kernels in a greedy order if that needs a smaller arena; else the plan as it is.
search::Plan in_memory_order(search::Plan plan);

} // namespace lathe::pipeline
