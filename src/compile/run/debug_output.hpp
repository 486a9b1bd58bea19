// Everything that lathe prints: to stderr, and only if the environment variable LATHE_DEBUG asks for it
// (core/debug.hpp lists its levels).
#pragma once
#include <optional>
#include <span>

#include "compile/run/kernel_impl.hpp"
#include "lathe/profile.hpp"
#include "lower/program.hpp"
#include "runtime/device.hpp"
#include "search/moves/plan.hpp"

namespace lathe::pipeline {

/// Launches the kernel and waits for its end. Returns its time, bytes, flops and machine limit.
LaunchTime timed_launch(const Kernel::Impl& kernel, const lower::Program& program, runtime::Device& device,
                        std::span<const runtime::BufferSlice> slices, std::span<const int64_t> shape_values);
/// Level 1: prints the time, GFLOP/s and GB/s of a launch.
void report_launch(const LaunchTime& launch);
/// Level 2: prints the schedule of a compiled kernel. Level 3: also its source.
void report_kernel(const Kernel::Impl& kernel);

/// Returns the arithmetic ops of a kernel's stages at given values of the program's shape variables. `steps`: how
/// many of a recurrence ran; none: as many as predictions count with, which also holds for recurrences inside.
double arithmetic_ops(const search::KernelPlan& kernel, const lower::Program& program,
                      const std::vector<Expr>& vars, std::span<const int64_t> values,
                      std::optional<int64_t> steps = {});

} // namespace lathe::pipeline
