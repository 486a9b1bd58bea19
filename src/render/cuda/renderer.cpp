// CUDA C for compute capability 7.5 and up.
#include <fmt/format.h>

#include "render/c_helpers.hpp"
#include "render/cuda/cuda.hpp"
#include "render/grid/grid_renderer.hpp"
#include "render/helper_text.hpp"

namespace lathe::render {
namespace {

class Cuda : public GridLanguage {
public:
  const Dialect& dialect() const override { return *dialect_; }
  std::string_view name() const override { return "cuda"; }
  std::string helpers(std::string_view functions, bool) const override {
    static const HelperText helpers(cuda_helpers() + common_helpers());
    return helpers.used_by(functions);
  }
  std::string head(const GridLaunch& launch) const override {
    const int64_t threads = launch.local[0].value() * launch.local[1].value() * launch.local[2].value();
    return fmt::format("extern \"C\" __global__ __launch_bounds__({})", threads);
  }
  std::string pointer(const std::string& type, bool is_written) const override {
    return fmt::format("{}{}*", is_written ? "" : "const ", type);
  }
  std::string group(int axis) const override { return fmt::format("blockIdx.{}", "xyz"[axis]); }
  std::string item(int axis) const override { return fmt::format("threadIdx.{}", "xyz"[axis]); }
  std::string barrier() const override { return "__syncthreads();"; }
  std::string private_array(const std::string& type, const std::string& name,
                            int64_t elements) const override {
    return fmt::format("__align__(16) {} {}[{}];", type, name, elements);
  }
  std::string shared_array(const std::string& type, const std::string& name,
                           int64_t elements) const override {
    return "__shared__ " + private_array(type, name, elements);
  }

private:
  std::unique_ptr<Dialect> dialect_ = make_cuda_dialect();
};

} // namespace

GridSource render_cuda(const ast::Kernel& kernel) { return render_grid(kernel, Cuda()); }
std::string join_cuda(const std::vector<GridSource>& sources) { return join_grid(sources, Cuda()); }

} // namespace lathe::render
