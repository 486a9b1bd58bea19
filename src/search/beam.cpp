#include "search/log.hpp"
#include "search/measured_search.hpp"

namespace lathe::search {

constexpr double kNear = 1.5;

SearchResult search(const Plan& start, CostModel& model, const SearchOptions& options) {
  const auto began = std::chrono::steady_clock::now();
  JointSearch joint(start, model, options);
  std::vector<Partition> partitions;
  if (options.graph_then_loops)
    partitions.push_back(joint.graph_only());
  else
    partitions = joint.run();

  SearchResult result;
  if (options.measure) {
    // What the model thinks much slower is not worth compiling.
    const double worst = kNear * partitions.front().seconds;
    std::erase_if(partitions, [&](const Partition& p) { return p.seconds > worst; });
    Measured m = measure_variants(joint, start, partitions, model, options, began);
    result.plan = std::move(m.plan);
    result.measured_seconds = m.seconds;
    result.measured = m.measured;
    result.rejected = m.rejected;
  } else {
    result.plan = joint.schedule(partitions.front());
  }
  result.predicted_seconds = model.seconds(result.plan);
  result.proposed = joint.proposed();
  result.rejected += joint.rejected();
  if (!options.log.empty())
    append_log(options.log, {LogRecord::Kind::Plan, program_hash(*start.program), 0,
                             model.machine().fingerprint, model.target().device, result.plan.moves(),
                             result.predicted_seconds, result.measured_seconds, ""});
  return result;
}

} // namespace lathe::search
