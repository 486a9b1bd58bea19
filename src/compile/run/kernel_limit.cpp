#include "compile/run/kernel_limit.hpp"

#include <algorithm>

#include "compile/front/shape_values.hpp"
#include "compile/run/debug_output.hpp"

namespace lathe::pipeline {

std::optional<KernelLimit> limit_of(const Kernel::Impl& kernel, const lower::Program& program) {
  if (!kernel.shape_vars.empty()) return {};
  search::CompulsoryTraffic traffic;
  int width = 4;
  for (const ast::Param& param : kernel.plan->kernel.params) {
    (param.written ? traffic.written : traffic.read) += static_cast<double>(largest_bytes(*param.buffer));
    if (is_float(param.buffer->dtype)) width = std::max(width, size_of(param.buffer->dtype));
  }
  const double flops = arithmetic_ops(*kernel.plan, program, {}, {});
  return KernelLimit{
      flops, traffic.read + traffic.written,
      search::machine_limit(search::machine_profile(), kernel.flags.threads, width, flops, traffic)};
}

} // namespace lathe::pipeline
