// Puts kernels that are one computation of the user's program into one kernel of several nests.
#pragma once
#include "search/machine/target.hpp"
#include "search/moves/plan.hpp"

namespace lathe::search {

/// The plan with all steps of a convolution by Winograd's filtering in one kernel, if no other kernel reads
/// the values between them. The steps are the transform of the data, the products, their transform back, and
/// the bias. `plan` is a scheduled plan; each nest keeps its loops. In OpenCL every nest is a launch of its
/// own, so the plan stays as it is.
Plan with_shared_launches(const Plan& plan, const Target& target);

} // namespace lathe::search
