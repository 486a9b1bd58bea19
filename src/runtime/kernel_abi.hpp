// The calling convention of compiled host kernels (from the JIT and the C compiler), and of their calls back.
//
//   void kernel(void* const* buffers, const int64_t* vars, char* scratch, const KernelEnv* env)
//
// `scratch` is private memory of the calling thread, of ScratchLayout::bytes. Every packed buffer has a fixed offset in it.
// A parallel loop (always outermost in its nest) becomes a function of its own, a ParallelBody. env->parallel_for calls it
// with the scratch of the thread that runs it. Packed buffers allocated outside the loop lie in the caller's scratch, which
// the function gets as `outer`.
#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "ast/ast.hpp"

namespace lathe::runtime {

struct KernelEnv;
using ParallelBody = void (*)(int64_t index, void* const* buffers, const int64_t* vars, char* outer, char* scratch,
                              const KernelEnv* env);
struct KernelEnv {
  /// Calls body(i, ...) once for every i in [0, count), on up to env->threads threads, and waits.
  void (*parallel_for)(const KernelEnv* env, int64_t count, ParallelBody body, void* const* buffers, const int64_t* vars, char* outer);
  size_t scratch_bytes;
  int threads;
};
using KernelFunction = void (*)(void* const* buffers, const int64_t* vars, char* scratch, const KernelEnv* env);

/// Offsets in scratch of all Packed (and Global, i.e. whole-kernel) Allocs, aligned to 128 bytes. Buffers that are alive
/// together do not overlap. A symbolic size counts as its upper bound. Register buffers have no offset: they live in
/// registers or on the stack.
struct ScratchLayout {
  std::map<int, size_t> offset_of;  // buffer id -> bytes
  size_t bytes = 0;
};
ScratchLayout layout_scratch(const ast::Kernel& kernel);

/// Runs a compiled kernel on the calling thread and the thread pool. Scratch comes from a per-thread cache.
void run_host_kernel(KernelFunction function, void* const* buffers, const int64_t* vars, size_t scratch_bytes, int threads);

}  // namespace lathe::runtime
