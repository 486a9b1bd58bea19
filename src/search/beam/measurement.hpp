// What measuring gives the search, and what measured kernels are checked against.
#pragma once
#include <functional>
#include <map>
#include <string>

#include "search/machine/target.hpp"
#include "search/moves/plan.hpp"

namespace lathe::search {

/// Compiles and times one kernel of a plan, and checks its outputs against the unscheduled kernel's. Given by
/// compile/.
struct Measurement {
  bool ok = false;
  double seconds = 0;
  std::string error; // why rejected: does not compile, wrong result, too slow
  /// False: nothing can be measured here, whatever the kernel. The search ends with an error.
  bool lasting = true;
};
/// The reason for a rejected candidate in a few words, for counting: "wrong result", "too slow", "crashed"
/// ...
std::string reason_of(const Measurement& rejected);
using Rejections = std::map<std::string, int64_t>;

/// What scheduled kernels are checked against, quicker than unscheduled() is: the same sums in the same
/// order, but with the loop along which results are contiguous innermost.
KernelPlanRef reference_kernel(const lower::Program& program, const KernelPlan& scheduled,
                               const Target& target);
using Measure = std::function<Measurement(const KernelPlanRef& kernel, double time_limit_seconds)>;
/// Told of kernels that will be measured soon: they may be compiled while another one is measured.
using Prepare = std::function<void(const KernelPlanRef& kernel)>;

} // namespace lathe::search
