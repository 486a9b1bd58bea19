// OpenCL C 1.2.
#include <fmt/format.h>

#include "render/c_helpers.hpp"
#include "render/grid/grid_renderer.hpp"
#include "render/helper_text.hpp"

namespace lathe::render {
namespace {

constexpr const char* kHead = R"(#pragma OPENCL FP_CONTRACT OFF
typedef char int8_t; typedef short int16_t; typedef int int32_t; typedef long int64_t;
typedef uchar uint8_t; typedef ushort uint16_t; typedef uint uint32_t; typedef ulong uint64_t;
#define LATHE_FN static inline
#define LATHE_ALIGNED(n) __attribute__((aligned(n)))
#define lathe_bits_f32_to_u32(x) as_uint(x)
#define lathe_bits_u32_to_f32(x) as_float(x)
#define lathe_bits_f64_to_u64(x) as_ulong(x)
#define lathe_bits_u64_to_f64(x) as_double(x)
#define lathe_nan_f32 NAN
#define lathe_nan_f64 ((double)NAN)
)";

class OpenCl : public GridLanguage {
public:
  const Dialect& dialect() const override { return *dialect_; }
  std::string_view name() const override { return "opencl"; }
  std::string helpers(std::string_view functions, bool needs_f64) const override {
    static const HelperText helpers(kHead + common_helpers());
    return (needs_f64 ? "#pragma OPENCL EXTENSION cl_khr_fp64 : enable\n" : "") + helpers.used_by(functions);
  }
  std::string head(const GridLaunch& launch) const override {
    return fmt::format("__kernel __attribute__((reqd_work_group_size({}, {}, {})))", launch.local[0].value(),
                       launch.local[1].value(), launch.local[2].value());
  }
  std::string pointer(const std::string& type, bool is_written) const override {
    return fmt::format("__global {}{}*", is_written ? "" : "const ", type);
  }
  std::string group(int axis) const override { return fmt::format("get_group_id({})", axis); }
  std::string item(int axis) const override { return fmt::format("get_local_id({})", axis); }
  std::string barrier() const override { return "barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);"; }
  std::string private_array(const std::string& type, const std::string& name,
                            int64_t elements) const override {
    return fmt::format("{} {}[{}] __attribute__((aligned(64)));", type, name, elements);
  }
  std::string shared_array(const std::string& type, const std::string& name,
                           int64_t elements) const override {
    return "__local " + private_array(type, name, elements);
  }

private:
  std::unique_ptr<Dialect> dialect_ = make_opencl_dialect();
};

} // namespace

GridSource render_opencl(const ast::Kernel& kernel) { return render_grid(kernel, OpenCl()); }
std::string join_opencl(const std::vector<GridSource>& sources) { return join_grid(sources, OpenCl()); }

} // namespace lathe::render
