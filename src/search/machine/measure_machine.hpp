// Measures what the cost model computes with: arithmetic peaks, bandwidths, the cost of starting threads.
// Takes about two seconds.
#pragma once
#include "search/machine/profile.hpp"

namespace lathe::search {

/// Of the machine as it is now: other load lowers the figures. Not stored: see store_machine_profile.
MachineProfile measure_machine();

} // namespace lathe::search
