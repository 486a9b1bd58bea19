// What the search takes for granted of a machine.
#pragma once
#include "search/machine/target.hpp"

namespace lathe::search {

constexpr int64_t kCacheLine = 64,
                  kPage = 4096;       // bytes; the sets of a nearest cache begin anew with each page
constexpr double kBandwidthCores = 8; // about here main memory is saturated

/// Of the target's vectors, in MachineProfile::flops_per_second.
inline int vector_width(const Target& target) {
  return target.vector_bytes >= 64 ? 2 : target.vector_bytes >= 32 ? 1 : 0;
}

} // namespace lathe::search
