// All kernels of a plan that tuning starts from or returns must be right. A wrong one is a fault of this
// library, not a rejected candidate.
#pragma once
#include <string>
#include <unordered_map>
#include <unordered_set>

#include "search/beam/measurement.hpp"
#include "search/moves/plan.hpp"

namespace lathe::pipeline {

class CheckedKernels {
public:
  /// From now on a wrong kernel of this plan is an InternalError. `what` names the plan in the message.
  void expect_right(const search::Plan& plan, const std::string& what);
  /// Returns a function that measures as `measure` does and remembers the right kernels. This object must
  /// outlive the function.
  search::Measure noting(search::Measure measure);
  /// Measures those kernels of the plan that have not been found right so far. `make` is called if there are
  /// any. If a kernel is wrong, throws InternalError with the program, its moves and the kernel, so that the
  /// plan can be replayed.
  void check(const search::Plan& plan, const std::string& what, const std::function<search::Measure()>& make);

private:
  struct Expected {
    search::Plan plan;
    std::string what;
  };
  std::unordered_map<uint64_t, Expected> expected_; // by the kernel's hash
  std::unordered_set<uint64_t> right_;
};

} // namespace lathe::pipeline
