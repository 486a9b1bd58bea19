// How compiled host kernels (the JIT's and the C compiler's) are called, and how they call back.
//
//   void kernel(void* const* buffers, const int64_t* vars, char* scratch, const KernelEnv* env)
//
// `scratch` is the calling thread's private memory of Layout::scratch_bytes: every packed buffer has a fixed offset in it. A
// parallel loop (always outermost in its nest) is a function of its own, called back through env->parallel_for with the
// scratch of whichever thread runs it; packed buffers allocated outside the loop are reached through the caller's
// scratch, which it gets as `outer`.
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

/// Offsets of all Packed (and Global, i.e. whole-kernel) Allocs in scratch, 128-aligned; disjoint for buffers alive together. Symbolic
/// sizes take their upper bound. Register buffers are not here: they live in registers or on the stack.
struct ScratchLayout {
  std::map<int, size_t> offset_of;  // buffer id -> bytes
  size_t bytes = 0;
};
ScratchLayout layout_scratch(const ast::Kernel& kernel);

/// Runs a compiled kernel on the calling thread and the pool; scratch comes from a per-thread cache.
void run_host_kernel(KernelFunction function, void* const* buffers, const int64_t* vars, size_t scratch_bytes, int threads);

}  // namespace lathe::runtime
