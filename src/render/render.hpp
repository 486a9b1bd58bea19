// Renderers: a verified kernel, after ast::prepare, to source text.
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
  bool standalone = false;     // a function of a program's own file, instead of the kernel ABI
  /// Where each Packed and Global Alloc lies in scratch, by buffer id (runtime::layout_scratch).
  std::map<int, size_t> scratch_offsets;
  bool parallel = false;       // standalone: parallel loops run on what `env` has, not serially
};
/// C11. With the kernel ABI: `void <name>(void* const*, const int64_t*, char*, const struct lathe_env*)`. Standalone:
/// `static void <name>(const T* in, ..., T* out, int64_t var, ...)`, <name> being function_name(kernel), of buffers that do
/// not overlap; then `char* scratch` if it has any, and `char* scratch, const struct lathe_env* env` where loops are parallel.
/// Group and Local loops are serial; throws Error(Device) for a Barrier. c_prelude(...) must stand before it.
std::string render_c(const ast::Kernel& kernel, const COptions& options);
/// Definitions of the helpers (op semantics with no C operator, vector types) that `code`, the rest of a file, uses.
std::string c_prelude(std::string_view code);
/// The same for kernels rendered with vector_bytes = 0: C11 or C++11 with <math.h>, and nothing of any compiler's own.
std::string c_portable_prelude(std::string_view code);
/// The kernel's name as an identifier of C and OpenCL C.
std::string function_name(const ast::Kernel& kernel);

/// Bytes of one array that a work-item may have to itself, on a device with work-groups.
constexpr int64_t kMostPrivateBytes = 4096;

/// Of a kernel function on a device with work-groups: work-items along each axis, of all groups and of one, as Exprs of the
/// shape variables; local sizes are constants. In CUDA's words a group is a block, and a work-item a thread.
struct GridLaunch {
  Expr global[3]{1, 1, 1}, local[3]{1, 1, 1};
};
/// OpenCL C 1.2. A kernel's nests at top level become one kernel function each (name, name_1, ...), launched in order: nests
/// of one kernel may depend on each other. Arguments of each function: the params' buffers in order, the temporaries, the
/// shape variables as long, and for each param a long: the element of its buffer at which it begins.
/// A nest without group loops whose outermost loop is Parallel has its iterations as work-groups. Throws Error(Device) for private
/// scratch that OpenCL has no place for.
struct GridSource {
  std::string text;
  size_t head = 0;             // bytes of text before the first function: the helpers
  std::vector<GridLaunch> launches;
  std::vector<std::string> functions;
  struct Temporary { int buffer_id; int64_t bytes; };  // Allocs at kernel level
  std::vector<Temporary> temporaries;
  int64_t local_bytes = 0;     // of local memory, the most that a function needs
  bool needs_f64 = false;
};
GridSource render_opencl(const ast::Kernel& kernel);
/// CUDA C for compute capability 7.5 and up, for nvcc or NVRTC with -fmad=false: products and sums round apart unless the
/// kernel says fma. Functions, launches and arguments as above; shape variables and beginnings are int64_t.
GridSource render_cuda(const ast::Kernel& kernel);
/// Kernels of different names as one file: all functions behind one copy of the helpers.
std::string join_opencl(const std::vector<GridSource>& sources);
std::string join_cuda(const std::vector<GridSource>& sources);

}  // namespace lathe::render
