// What the machine needs at least for a kernel whose sizes are known.
#pragma once
#include <optional>

#include "compile/run/kernel_impl.hpp"
#include "lower/program.hpp"
#include "search/machine/profile.hpp"

namespace lathe::pipeline {

struct KernelLimit {
  double flops, bytes;
  search::Limit limit;
};
/// Nothing if a size, or the number of steps of a recurrence, is known only at run time.
std::optional<KernelLimit> limit_of(const Kernel::Impl& kernel, const lower::Program& program);

} // namespace lathe::pipeline
