// The search: suggesters propose moves, the cost model ranks plans, the beam keeps the best and measures a
// few.
#pragma once
#include <atomic>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "lathe/executable.hpp"
#include "search/beam/choices.hpp"
#include "search/beam/measurement.hpp"
#include "search/cost/cost.hpp"

namespace lathe::search {

struct SearchOptions {
  int beam = 4; // wider ones also try more parameters of each move
  int rounds = 12;
  double budget_seconds = 0; // 0: no clock, stop when a round brings nothing
  uint64_t seed = 1;
  Measure measure; // null: rank by the model alone
  Prepare prepare; // may be null
  /// What an earlier search measured of this kernel, if it did: it is measured again only if it would be the
  /// best. And where new results go. Both may be null.
  std::function<std::optional<Measurement>(uint64_t kernel_hash)> recall;
  std::function<void(const KernelPlan& kernel, const Measurement& result)> note;
  std::vector<Plan> seeds; // plans of the same program to begin with: none is trusted, each is measured
  const std::atomic<bool>* stop = nullptr; // once true: end with the best so far
  std::string where;                       // machine, device and its use, for the log
  /// Axes that nothing tells apart become one, of whole programs: a part's neighbours may tell them apart.
  bool joins = true;
  bool graph_then_loops = false; // staged instead of joint: for comparison only
  std::string log;
  std::function<void(const TuneProgress&)> progress;
};
struct SearchResult {
  Plan plan;
  double predicted_seconds = 0;
  double measured_seconds = 0; // 0 if nothing was measured
  std::vector<Plan> rivals;    // of other kernels or another form, measured at other moments: only whole
                               // programs tell them apart
  Choices choices;             // of the plan's kernels; none if they were not measured
  int64_t proposed = 0, measured = 0, rejected = 0;
  Rejections rejections;
};
SearchResult search(const Plan& start, CostModel& model, const SearchOptions& options);

} // namespace lathe::search
