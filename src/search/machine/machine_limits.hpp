// Numbers that the search assumes of every machine.
#pragma once
#include <algorithm>

#include "search/machine/target.hpp"

namespace lathe::search {

constexpr int64_t kCacheLine = 64,
                  kPage = 4096;       // bytes; addresses a page apart share a set of the first-level cache
constexpr double kBandwidthCores = 8; // cores that saturate the bandwidth of main memory, roughly

/// Index of the target's vector width in MachineProfile::flops_per_second.
inline int vector_width(const Target& target) {
  return target.vector_bytes >= 64 ? 2 : target.vector_bytes >= 32 ? 1 : 0;
}

/// How many times as many multiply-adds as by f32 vectors the instructions can do in a cycle, on operands A of this type.
inline double tensor_speed(const Instructions& instructions, DType a, int vector_bytes) {
  double best = 1;
  for (const Instruction instruction : instructions) {
    const InstructionInfo& row = info(instruction);
    const double lanes = vector_bytes / size_of(row.c), columns = row.n != 0 ? row.n : lanes;
    if (row.a == a)
      best = std::max(best, row.m * columns * row.k / row.cycles / (lanes / info(Instruction::MultiplyAdd).cycles));
  }
  return best;
}

} // namespace lathe::search
