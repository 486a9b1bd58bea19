// Measures the numbers that the cost model computes with: arithmetic peaks, bandwidths, the cost of starting
// threads. Takes about two seconds.
#pragma once
#include "search/machine/profile.hpp"

namespace lathe::search {

/// The machine's profile, not stored: see store_machine_profile. Other load lowers the figures.
MachineProfile measure_machine();

} // namespace lathe::search
