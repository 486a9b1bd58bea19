// Calls whose buffers overlap.
#pragma once
#include <vector>

#include "compile/run/executable_impl.hpp"
#include "core/storage.hpp"
#include "lathe/executable.hpp"

namespace lathe::pipeline {

/// Kernels read inputs while outputs are being written. An output that shares memory with an input is
/// computed in memory of its own, and copied to its place when all kernels have run. An output that kernels
/// write over an input may have that input's memory.
class PrivateOutputs {
public:
  /// Points each output of the frame that overlaps an input to new memory; without overlap nothing is
  /// allocated. The caller has set the frame's inputs and outputs. Error(Value) naming both if two outputs
  /// overlap: no order of writing them is right.
  PrivateOutputs(const Executable::Impl& impl, Executable::Impl::Frame& frame) {
    if (may_overlap(impl, frame)) move_apart(impl, frame);
  }
  /// Copies the moved outputs to the caller's memory, after the run.
  void copy_back() const {
    if (!copies_.empty()) copy_all();
  }

private:
  struct Copy {
    void* to;
    StorageRef from;
    size_t bytes;
  };
  static bool may_overlap(const Executable::Impl& impl, const Executable::Impl::Frame& frame);
  void move_apart(const Executable::Impl& impl, Executable::Impl::Frame& frame);
  void copy_all() const;
  std::vector<Copy> copies_;
};

/// Whether two ranges of bytes have any in common.
inline bool overlap(const void* a, size_t a_bytes, const void* b, size_t b_bytes) {
  const auto first = reinterpret_cast<uintptr_t>(a), second = reinterpret_cast<uintptr_t>(b);
  return first < second ? second - first < a_bytes && b_bytes > 0 : first - second < b_bytes && a_bytes > 0;
}

} // namespace lathe::pipeline
