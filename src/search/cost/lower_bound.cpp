// What no loops can make faster: the operations asked for, and each byte moved once.
#include <algorithm>

#include "core/per_thread.hpp"
#include "search/cost/cost.hpp"
#include "search/cost/features.hpp"
#include "search/machine/machine_limits.hpp"
#include "search/machine/profile.hpp"
#include "search/moves/plan.hpp"

namespace lathe::search {
namespace {

double tensor_speed(const ast::Kernel& kernel, const Target& target) {
  double best = 1;
  for (const ast::Param& p : kernel.params)
    best = std::max(best, search::tensor_speed(target.instructions, p.buffer->dtype, target.vector_bytes));
  return best;
}

} // namespace

double lower_bound(const ast::Kernel& kernel, const Target& target, const MachineProfile& machine) {
  auto& f = per_thread<Features, struct BoundFeatures>();
  read_features(kernel, target, f);
  double operations = f.top.operations;
  for (size_t i = 0; i < f.loops.size(); ++i) {
    if (f.loops[i].body.operations == 0) continue;
    double executions = 1;
    for (int l = static_cast<int>(i); l >= 0; l = f.loops[l].parent) executions *= f.loops[l].extent;
    operations += executions * f.loops[i].body.operations;
  }
  // Of a large buffer a slice may be all that is touched: no more than the accesses can reach.
  double bytes = 0;
  for (size_t i = 0; i < f.buffers.size(); ++i) {
    const BufferInfo& b = f.buffers[i];
    if (std::none_of(kernel.params.begin(), kernel.params.end(),
                     [&](const ast::Param& p) { return p.buffer.get() == b.buffer; }))
      continue;
    double reached = 0;
    for (const AccessInfo& a : f.accesses) {
      if (a.buffer != static_cast<int>(i)) continue;
      reached = std::max(reached, a.random ? 1 : f.steps(a, [&](int l) { return f.stride(a, l) != 0; }));
    }
    bytes += std::min(b.elements, reached) * b.element_bytes;
  }
  const double ways = target.gpu ? 256.0 : std::max(1, target.threads);
  const double arithmetic =
      operations / (machine.flops_per_second[vector_width(target)] * tensor_speed(kernel, target)) / ways;
  // The innermost level that holds everything sets the rate.
  size_t level = 0;
  while (level + 1 < machine.levels.size() && bytes > static_cast<double>(machine.levels[level].bytes))
    ++level;
  const double rate =
      level + 1 == machine.levels.size()
          ? std::max(machine.levels[level].read_bytes_per_second, machine.streaming_write_bytes_per_second)
          : machine.levels[level].read_bytes_per_second;
  const double moved = bytes / rate / std::min(ways, kBandwidthCores);
  return 0.9 * std::max(arithmetic, moved) + (target.gpu || target.groups ? 0 : machine.launch_seconds);
}

} // namespace lathe::search
