// Renderers turn a verified kernel, after ast::prepare, into source text.
#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "ast/ast.hpp"

namespace lathe::render {

struct COptions {
  int vector_bytes = 64;       // widest vector type used (GCC/Clang vector extensions); 0: plain C, scalar loops only
  bool standalone = false;     // a function for a program's own file, instead of the kernel ABI
  /// Bytes from the start of scratch to each Packed and Global Alloc, by buffer id (runtime::layout_scratch).
  std::map<int, size_t> scratch_offsets;
  bool parallel = false;       // standalone: parallel loops run on the threads of `env`, not serially
};
/// The kernel as C11; <name> is function_name(kernel). c_prelude(...) must stand before the text. Kernel ABI: `void
/// <name>(void* const*, const int64_t*, char*, const struct lathe_env*)`. Standalone: `static void <name>(const T* in, ...,
/// T* out, int64_t var, ...)`. The buffers must not overlap. A last parameter `char* scratch` follows if there is scratch;
/// with `parallel`, `char* scratch, const struct lathe_env* env` always follow. Group and Local loops are serial; throws
/// Error(Device) for a Barrier.
std::string render_c(const ast::Kernel& kernel, const COptions& options);
/// Definitions of the helpers that `code`, the rest of a file, uses: op semantics with no C operator, vector types.
std::string c_prelude(std::string_view code);
/// The same for kernels rendered with vector_bytes = 0: C11 or C++11 with <math.h>, and no compiler extensions.
std::string c_portable_prelude(std::string_view code);
/// The kernel's name as an identifier of C and OpenCL C.
std::string function_name(const ast::Kernel& kernel);

/// Bytes; the largest private array of a work-item, on a device with work-groups.
constexpr int64_t kMostPrivateBytes = 4096;

/// The launch size of a kernel function on a device with work-groups: work-items along each axis, in all groups (`global`)
/// and in one group (`local`). Exprs of the shape variables; local sizes are constants. CUDA calls a group a block, and a
/// work-item a thread.
struct GridLaunch {
  Expr global[3]{1, 1, 1}, local[3]{1, 1, 1};
};
/// A kernel as OpenCL C 1.2. Each nest at top level becomes one kernel function (name, name_1, ...). Launches follow this
/// order, since nests of one kernel may depend on each other. Arguments of each function: the params' buffers in order, the
/// temporaries, the shape variables as long, and for each param a long, the element of its buffer at which the param begins.
/// If a nest has no group loops and its outermost loop is Parallel, the iterations of that loop become work-groups. Throws
/// Error(Device) for private scratch that is too large for a work-item.
struct GridSource {
  std::string text;
  size_t head = 0;             // bytes of `text` before the first function, which hold the helpers
  std::vector<GridLaunch> launches;
  std::vector<std::string> functions;
  struct Temporary { int buffer_id; int64_t bytes; };  // Allocs at kernel level
  std::vector<Temporary> temporaries;
  int64_t local_bytes = 0;     // local memory of the function that needs most
  bool needs_f64 = false;
};
GridSource render_opencl(const ast::Kernel& kernel);
/// A kernel as CUDA C for compute capability 7.5 and up. Compile it by nvcc or NVRTC with -fmad=false, since products and
/// sums round separately unless the kernel has an Fma. Functions, launches and arguments are as above, except that shape
/// variables and first elements are int64_t.
GridSource render_cuda(const ast::Kernel& kernel);
/// Joins kernels of different names into one file, with one copy of the helpers before all functions.
std::string join_opencl(const std::vector<GridSource>& sources);
std::string join_cuda(const std::vector<GridSource>& sources);

}  // namespace lathe::render
