// Measuring: the variants that the model ranks highest are compiled, checked and timed, until the clock says
// stop.
#pragma once
#include "search/beam/choices.hpp"
#include "search/beam/joint_search.hpp"
#include "search/beam/measurement.hpp"
#include "search/beam/search.hpp"
#include "search/cost/cost.hpp"

namespace lathe::search {

struct Measured {
  Plan plan;
  double seconds = 0;       // sum of the kernels' measured times; 0 if none could be measured
  std::vector<Plan> rivals; // see SearchResult
  Choices choices;
  int64_t measured = 0, rejected = 0;
  Rejections rejections;
};
Measured measure_variants(JointSearch& search, const Plan& start, const std::vector<Partition>& partitions,
                          CostModel& model, const SearchOptions& options, const Watch& watch);

} // namespace lathe::search
