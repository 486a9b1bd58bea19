// Numbers that the search assumes of every machine.
#pragma once
#include "search/machine/target.hpp"

namespace lathe::search {

constexpr int64_t kCacheLine = 64,
                  kPage = 4096;       // bytes; addresses a page apart share a set of the first-level cache
constexpr double kBandwidthCores = 8; // cores that saturate the bandwidth of main memory, roughly

/// Index of the target's vector width in MachineProfile::flops_per_second.
inline int vector_width(const Target& target) {
  return target.vector_bytes >= 64 ? 2 : target.vector_bytes >= 32 ? 1 : 0;
}

} // namespace lathe::search
