// Kernels that are one computation to whoever wrote the program, as one kernel of several nests.
#pragma once
#include "search/machine/target.hpp"
#include "search/moves/plan.hpp"

namespace lathe::search {

/// The plan with the steps of a convolution that Winograd's filtering splits up (what transforms the data,
/// the products, what transforms them back, what adds the bias) beside each other in one kernel, where
/// nothing else reads what flows between them. Takes a scheduled plan: each nest keeps its loops. Where every
/// nest is a launch of its own, in OpenCL, the plan stays as it is.
Plan with_shared_launches(const Plan& plan, const Target& target);

} // namespace lathe::search
