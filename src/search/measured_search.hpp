// Measuring: the variants that the model ranks highest are compiled, checked and timed, until the clock says
// stop.
#pragma once
#include <chrono>

#include "search/joint_search.hpp"

namespace lathe::search {

struct Measured {
  Plan plan;
  double seconds = 0; // sum of the kernels' measured times; 0 if none could be measured
  int64_t measured = 0, rejected = 0;
};
/// `began`: when the search as a whole did, for the budget.
Measured measure_variants(JointSearch& search, const Plan& start, const std::vector<Partition>& partitions,
                          CostModel& model, const SearchOptions& options,
                          std::chrono::steady_clock::time_point began);

} // namespace lathe::search
