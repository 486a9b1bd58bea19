// What the model and its lower bound both take for granted of a machine.
#pragma once
#include "search/search.hpp"

namespace lathe::search {

constexpr double kBandwidthCores = 8; // about here main memory is saturated

/// Of the target's vectors, in MachineProfile::flops_per_second.
inline int vector_width(const Target& target) {
  return target.vector_bytes >= 64 ? 2 : target.vector_bytes >= 32 ? 1 : 0;
}

} // namespace lathe::search
