// The ids of the loops and buffers of a kernel. Each id belongs to a stage, so that kernels are joined
// without renumbering. The program's own buffers have the smallest ids, scratch buffers larger ones, and
// constants' copies the largest.
#pragma once
#include <optional>

namespace lathe::search::ids {

constexpr int kLoopsPerStage = 1024;
constexpr int kScratchBase = 1 << 24, kScratchPerStage = 64;
constexpr int kCopyBase = 1 << 28, kCopiesPerStage = 64;

inline int first_loop(int stage) { return stage * kLoopsPerStage; }
inline bool is_loop_of(int id, int stage) { return id / kLoopsPerStage == stage; }
inline int first_scratch(int stage) { return kScratchBase + stage * kScratchPerStage; }
inline int first_copy(int stage) { return kCopyBase + stage * kCopiesPerStage; }

/// The stage whose nests a scratch buffer or a constant's copy serves; nothing if the buffer is the
/// program's.
inline std::optional<int> stage_of_scratch(int buffer) {
  if (buffer >= kCopyBase) return (buffer - kCopyBase) / kCopiesPerStage;
  if (buffer >= kScratchBase) return (buffer - kScratchBase) / kScratchPerStage;
  return {};
}

} // namespace lathe::search::ids
