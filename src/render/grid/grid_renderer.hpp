// The renderer that OpenCL C and CUDA C share: one kernel function per nest, work-groups and work-items,
// local memory and barriers. CUDA calls these blocks and threads, shared memory and __syncthreads.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "render/c_dialect.hpp"
#include "render/render.hpp"

namespace lathe::render {

/// The text around statements that differs between the languages. dialect() has the text inside statements
/// that differs.
class GridLanguage {
public:
  virtual ~GridLanguage() = default;
  virtual const Dialect& dialect() const = 0;
  virtual std::string_view name() const = 0; // in messages
  /// The helpers that `functions` use, which stand before them.
  virtual std::string helpers(std::string_view functions, bool needs_f64) const = 0;
  /// The text before "void NAME(".
  virtual std::string head(const GridLaunch& launch) const = 0;
  /// The type of a pointer to global memory.
  virtual std::string pointer(const std::string& type, bool is_written) const = 0;
  /// The number of this work-group or work-item along an axis, 0 to 2.
  virtual std::string group(int axis) const = 0;
  virtual std::string item(int axis) const = 0;
  virtual std::string barrier() const = 0;
  /// Declarations of arrays, aligned to vectors: private to a work-item, and in the memory of its group.
  virtual std::string private_array(const std::string& type, const std::string& name,
                                    int64_t elements) const = 0;
  virtual std::string shared_array(const std::string& type, const std::string& name,
                                   int64_t elements) const = 0;
};

GridSource render_grid(const ast::Kernel& kernel, const GridLanguage& language);
/// Joins kernels of different names into one file, with one copy of the helpers before all functions.
std::string join_grid(const std::vector<GridSource>& sources, const GridLanguage& language);

} // namespace lathe::render
