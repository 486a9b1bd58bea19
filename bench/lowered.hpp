// A machine to lower for, for the commands that look into the search itself.
#pragma once
#include "compile/realise.hpp"
#include "search/machine/target.hpp"

namespace lathe::bench {

using pipeline::lowered;

/// This machine's CPU, as the cost model sees it.
search::Target host_target(int threads);

} // namespace lathe::bench
