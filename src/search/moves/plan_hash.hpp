// The hash by which a trace knows a plan: which kernels compute which stages, with their loops.
#pragma once
#include "core/hash.hpp"
#include "search/moves/plan.hpp"

namespace lathe::search {

inline uint64_t plan_hash(const Plan& plan) {
  uint64_t sum = 0; // the order of kernels doesn't matter
  for (const KernelPlanRef& kernel : plan.kernels) {
    uint64_t h = kernel->hash;
    for (const int stage : kernel->stages) h = mix(h, static_cast<uint64_t>(stage));
    sum += h;
  }
  return sum;
}

} // namespace lathe::search
