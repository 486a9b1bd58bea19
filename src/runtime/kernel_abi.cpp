#include "runtime/kernel_abi.hpp"

#include <algorithm>
#include <fmt/core.h>

#include "core/per_thread.hpp"
#include "core/storage.hpp"
#include "lathe/error.hpp"
#include "runtime/thread_pool.hpp"

namespace lathe::runtime {
namespace {

constexpr int64_t kAlign = 128;

int64_t buffer_bytes(const ast::Buffer& buffer) {
  int64_t bytes = size_of(buffer.dtype);
  bool overflow = false;
  for (const Expr size : buffer.shape) overflow |= __builtin_mul_overflow(bytes, size.hi(), &bytes);
  if (overflow || bytes > (int64_t{1} << 46))
    throw Error(
        ErrorKind::Limit,
        fmt::format("compile: scratch buffer {} of shape {} is too large, expected less than 2^46 bytes",
                    buffer.name, to_string(buffer.shape)));
  return (bytes + kAlign - 1) / kAlign * kAlign;
}

void layout(const ast::Block& block, int64_t used, ScratchLayout& out) {
  for (const ast::Stmt& stmt : block) {
    if (const auto* loop = std::get_if<ast::For>(&stmt.node)) layout(loop->body, used, out);
    const auto* alloc = std::get_if<ast::Alloc>(&stmt.node);
    if (!alloc) continue;
    const bool in_scratch =
        alloc->buffer->scope == ast::Scope::Packed || alloc->buffer->scope == ast::Scope::Global;
    int64_t end = used;
    if (in_scratch) {
      out.offset_of[alloc->buffer->id] = static_cast<size_t>(used);
      end += buffer_bytes(*alloc->buffer);
      out.bytes = std::max(out.bytes, static_cast<size_t>(end));
    }
    layout(alloc->body, end, out);
  }
}

/// The calling thread's scratch of at least `bytes`, kept for the next kernel. Null if `bytes` is 0 or the
/// allocation fails.
char* thread_scratch(size_t bytes) {
  if (bytes == 0) return nullptr;
  auto& cached = per_thread<StorageRef, struct Scratch>();
  if (!cached || cached->bytes() < bytes) {
    cached.reset();
    try {
      cached = Storage::allocate(bytes);
    } catch (const Error&) {
      return nullptr;
    }
  }
  return static_cast<char*>(cached->data());
}

struct ParallelCall {
  const KernelEnv* env;
  ParallelBody body;
  void* const* buffers;
  const int64_t* vars;
  char* outer;

  static bool enter(void* context) {
    const size_t bytes = static_cast<ParallelCall*>(context)->env->scratch_bytes;
    return bytes == 0 || thread_scratch(bytes) != nullptr;
  }
  static void run(void* context, int64_t index) {
    const auto& call = *static_cast<ParallelCall*>(context);
    call.body(index, call.buffers, call.vars, call.outer, thread_scratch(call.env->scratch_bytes), call.env);
  }
};

void parallel_for(const KernelEnv* env, int64_t count, ParallelBody body, void* const* buffers,
                  const int64_t* vars, char* outer) {
  ParallelCall call{env, body, buffers, vars, outer};
  ThreadPool::instance().parallel_for(env->threads, count, {ParallelCall::run, ParallelCall::enter, &call});
}

} // namespace

ScratchLayout layout_scratch(const ast::Kernel& kernel) {
  ScratchLayout out;
  layout(kernel.body, 0, out);
  return out;
}

void run_host_kernel(KernelFunction function, void* const* buffers, const int64_t* vars, size_t scratch_bytes,
                     int threads) {
  char* scratch = thread_scratch(scratch_bytes);
  if (scratch_bytes && !scratch)
    throw Error(ErrorKind::Limit,
                fmt::format("launch: no memory for {} bytes of scratch, expected fewer", scratch_bytes));
  const KernelEnv env{parallel_for, scratch_bytes, threads};
  function(buffers, vars, scratch, &env);
}

} // namespace lathe::runtime
