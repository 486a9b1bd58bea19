// The result of a measurement, and the reference kernel that measured kernels are checked against.
#pragma once
#include <functional>
#include <map>
#include <string>

#include "search/machine/target.hpp"
#include "search/moves/plan.hpp"

namespace lathe::search {

/// The result of compiling and timing one kernel of a plan and checking its outputs against the unscheduled
/// kernel's. compile/ provides the Measure that returns it.
struct Measurement {
  bool ok = false;
  double seconds = 0;
  std::string error; // why the kernel was rejected: does not compile, wrong result, too slow
  /// False: no kernel at all can be measured here. The search ends with an error.
  bool lasting = true;
};
/// The reason for a rejected candidate in a few words, for counting: "wrong result", "too slow", "crashed"
/// ...
std::string reason_of(const Measurement& rejected);
using Rejections = std::map<std::string, int64_t>;

/// The kernel that scheduled kernels are checked against. It computes the same sums in the same order as
/// unscheduled(), but faster: the loop along which results are contiguous is innermost.
KernelPlanRef reference_kernel(const lower::Program& program, const KernelPlan& scheduled,
                               const Target& target);
using Measure = std::function<Measurement(const KernelPlanRef& kernel, double time_limit_seconds)>;
/// Takes a kernel that will be measured soon, to compile it while another one is measured.
using Prepare = std::function<void(const KernelPlanRef& kernel)>;

} // namespace lathe::search
