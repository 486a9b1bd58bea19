#include "search/beam/search.hpp"

#include <algorithm>

#include "core/throw_if_stopped.hpp"
#include "search/beam/measured_search.hpp"
#include "search/beam/region_search.hpp"
#include "search/beam/whole_functions.hpp"
#include "search/cost/cost.hpp"
#include "search/store/database.hpp"
#include "search/store/log.hpp"

namespace lathe::search {

constexpr double kNear = 1.5; // ratio to the best predicted time; slower partitions are not measured

namespace {

SearchResult search_whole(const Plan& start, CostModel& model, const SearchOptions& options) {
  const Watch watch(options.budget_seconds, options.stop, options.abandon);
  JointSearch joint(start, model, options, watch);
  std::vector<Partition> partitions;
  if (options.graph_then_loops)
    partitions.push_back(joint.graph_only());
  else
    partitions = joint.run();
  std::vector<Partition> whole = partitions;
  std::erase_if(whole, [](const Partition& p) { return splits_function(p.plan); });
  if (!whole.empty())
    partitions = std::move(whole);
  else if (const Plan begin = with_whole_functions(start, model.target()); !splits_function(begin))
    return search_whole(begin, model, options);

  SearchResult result;
  if (options.measure) {
    // A partition that the model predicts much slower than the best is not worth compiling.
    const double worst = kNear * partitions.front().seconds;
    std::erase_if(partitions, [&](const Partition& p) { return p.seconds > worst; });
    Measured m = measure_variants(joint, start, partitions, model, options, watch);
    result.plan = std::move(m.plan);
    result.measured_seconds = m.seconds;
    result.rivals = std::move(m.rivals);
    result.choices = std::move(m.choices);
    result.measured = m.measured;
    result.rejected = m.rejected;
    result.rejections = std::move(m.rejections);
  } else {
    result.plan = joint.schedule(partitions.front());
  }
  result.fusions = joint.fusions_of(result.plan);
  result.proposed = joint.proposed();
  result.rejected += joint.rejected();
  if (joint.rejected()) result.rejections["not legal"] += joint.rejected();
  return result;
}

/// Whether so few stages are sums, transforms or scatters that the kernels between them are long.
bool is_mostly_elementwise(const lower::Program& program) {
  constexpr size_t kAmong = 16;
  const auto& stages = program.stages;
  const auto others = std::count_if(stages.begin(), stages.end(), [](const lower::Stage& s) {
    return s.is_reduction || s.is_transform || s.is_scatter;
  });
  return static_cast<size_t>(others) * kAmong < stages.size();
}

/// The plan with all cheap stages inlined by one macro-move, each kernel scheduled; nothing if that splits a
/// function.
std::optional<SearchResult> search_inlined(const Plan& start, CostModel& model,
                                           const SearchOptions& options) {
  const Watch watch(options.budget_seconds, options.stop, options.abandon);
  JointSearch joint(start, model, options, watch);
  std::vector<Partition> partitions = joint.seeds();
  std::erase_if(partitions, [](const Partition& p) { return splits_function(p.plan); });
  if (partitions.empty()) return {};
  SearchResult result;
  result.plan = joint.schedule(partitions.front());
  result.fusions = joint.fusions_of(result.plan);
  result.proposed = joint.proposed();
  result.rejected = joint.rejected();
  if (result.rejected) result.rejections["not legal"] = result.rejected;
  return result;
}

/// The search of a large program: by regions; or, where no region has all that one kernel could compute, with
/// everything inlined that is cheap.
std::optional<SearchResult> search_large(const Plan& start, CostModel& model, const SearchOptions& options) {
  std::optional<SearchResult> by_regions = search_regions(start, model, options);
  if (!is_mostly_elementwise(*start.program)) return by_regions;
  std::optional<SearchResult> inlined = search_inlined(start, model, options);
  if (!by_regions || !inlined) return inlined ? std::move(inlined) : std::move(by_regions);
  return model.seconds(inlined->plan) < model.seconds(by_regions->plan) ? std::move(inlined)
                                                                        : std::move(by_regions);
}

} // namespace

SearchResult search(const Plan& start, CostModel& model, const SearchOptions& options) {
  throw_if_stopped(options.abandon);
  if (options.trace) options.trace->begins(start, model, options.measure != nullptr);
  std::optional<SearchResult> large;
  if (!options.measure && !options.graph_then_loops && has_regions(*start.program))
    large = search_large(start, model, options);
  SearchResult result = large ? std::move(*large) : search_whole(start, model, options);
  result.predicted_seconds = model.seconds(result.plan);
  if (options.trace) options.trace->ends(result.plan, result.predicted_seconds, result.measured_seconds);
  if (!options.log.empty())
    append_log(options.log, {LogRecord::Kind::Plan, program_hash(*start.program), 0, options.where,
                             model.target().device, result.plan.moves(), result.predicted_seconds,
                             result.measured_seconds, "", "", result.rejections});
  return result;
}

} // namespace lathe::search
