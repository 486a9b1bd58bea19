// What OpenCL C and CUDA C share: one kernel function per nest, work-groups and work-items, local memory and
// barriers. In CUDA's words these are blocks and threads, shared memory and __syncthreads.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "render/c_dialect.hpp"
#include "render/render.hpp"

namespace lathe::render {

/// What the languages write differently around statements; `dialect` says what they write differently in
/// them.
class GridLanguage {
public:
  virtual ~GridLanguage() = default;
  virtual const Dialect& dialect() const = 0;
  virtual std::string_view name() const = 0; // in messages
  /// What stands before functions: the helpers that they use.
  virtual std::string helpers(std::string_view functions, bool needs_f64) const = 0;
  /// What stands before "void NAME(".
  virtual std::string head(const GridLaunch& launch) const = 0;
  /// A pointer to global memory.
  virtual std::string pointer(const std::string& type, bool is_written) const = 0;
  /// The number of this work-group or work-item along an axis, 0 to 2.
  virtual std::string group(int axis) const = 0;
  virtual std::string item(int axis) const = 0;
  virtual std::string barrier() const = 0;
  /// Declarations of arrays, aligned to vectors: of a work-item's own, and in the memory of its group.
  virtual std::string private_array(const std::string& type, const std::string& name,
                                    int64_t elements) const = 0;
  virtual std::string shared_array(const std::string& type, const std::string& name,
                                   int64_t elements) const = 0;
};

GridSource render_grid(const ast::Kernel& kernel, const GridLanguage& language);
/// Kernels of different names as one file: all functions behind one copy of the helpers.
std::string join_grid(const std::vector<GridSource>& sources, const GridLanguage& language);

} // namespace lathe::render
