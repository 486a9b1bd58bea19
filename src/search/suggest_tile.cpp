// Register tiles for a reduction with output axes: alone in its kernel, or fused under the tile loops of its
// consumer.
#include <algorithm>

#include "search/tile.hpp"

namespace lathe::search {
namespace {

/// Finds the consumer's loop that runs along an axis of the reduction, or the two loops that do so together
/// (a reshape between them splits the axis). The number of loops found.
size_t match_axis(const Features& f, const Leaf& leaf, const AccessInfo& access, TileProblem::Loop& axis) {
  for (int l : leaf.loops)
    if (f.stride(access, l) == axis.store_stride && longest(f, l) == axis.extent && axis.around.empty())
      axis.around = loop_name(f, l);
  if (!axis.around.empty()) return 1;
  for (int inner : leaf.loops)
    for (int outer : leaf.loops) {
      if (outer == inner || f.stride(access, inner) != axis.store_stride) continue;
      if (f.stride(access, outer) != axis.store_stride * static_cast<double>(longest(f, inner))) continue;
      if (longest(f, outer) * longest(f, inner) != axis.extent) continue;
      axis.around = loop_name(f, outer);
      axis.around_inner = loop_name(f, inner);
      axis.inner_extent = longest(f, inner);
      return 2;
    }
  return 0;
}

} // namespace

std::vector<Proposal> suggest_tile(const SuggestContext& c) {
  std::vector<Proposal> proposals;
  for (const TileProblem& problem :
       read_tile_problems(c.features, *c.plan.program, c.kernel.kernel, c.target)) {
    if (problem.lanes < 2) continue;
    for (const TileChoice& choice : tile_choices(problem, c)) {
      Proposal p = tile_moves(problem, choice);
      if (!p.moves.empty()) proposals.push_back(std::move(p));
    }
  }
  return proposals;
}

std::vector<Proposal> suggest_fused_tile(const SuggestContext& c) {
  // The consumer: one plain store, its loops as they were made.
  const Features& f = c.features;
  const std::vector<Leaf> leaves = leaves_of(f);
  if (leaves.size() != 1 || leaves[0].combine || leaves[0].random || leaves[0].own != 0 ||
      leaves[0].loops.empty())
    return {};
  const Leaf& leaf = leaves[0];
  for (int l : leaf.loops)
    if (!is_serial(f, l)) return {};
  const lower::Program& program = *c.plan.program;
  std::vector<Proposal> proposals;
  for (int stage : c.kernel.reads) {
    const lower::Stage& info = program.stages[stage];
    if (!info.is_reduction || info.is_output) continue;
    const KernelPlan* producer = nullptr;
    int readers = 0;
    for (const auto& k : c.plan.kernels) {
      if (std::binary_search(k->stages.begin(), k->stages.end(), stage)) producer = k.get();
      readers += std::binary_search(k->reads.begin(), k->reads.end(), stage);
    }
    if (!producer || producer->stages.size() != 1 || readers != 1) continue;
    Features pf;
    read_features(producer->kernel, c.target, pf);
    std::vector<TileProblem> problems = read_tile_problems(pf, program, producer->kernel, c.target);
    if (problems.size() != 1 || !problems[0].whole) continue;
    TileProblem& problem = problems[0];
    problem.lanes = std::min(problem.lanes, lanes_of(f, leaf, c.target));
    // Each of its axes must be one of the consumer's loops.
    bool aligned = problem.lanes >= 2;
    size_t matched = 0;
    int reads = 0;
    for (int a = leaf.first; a < leaf.store && aligned; ++a) {
      const AccessInfo& access = f.accesses[a];
      if (f.buffers[access.buffer].buffer->id != info.buffer->id) continue;
      ++reads;
      for (auto& axis : problem.out) {
        const size_t loops = match_axis(f, leaf, access, axis);
        aligned &= loops > 0;
        matched += loops;
      }
      double moving = 0;
      for (int l : leaf.loops) moving += f.stride(access, l) != 0;
      aligned &= moving == static_cast<double>(matched) && leaf.loops.size() == matched;
    }
    if (!aligned || reads != 1) continue;
    for (const TileChoice& choice : tile_choices(problem, c)) {
      Proposal p = tile_moves(problem, choice);
      if (!p.moves.empty()) proposals.push_back(std::move(p));
    }
  }
  return proposals;
}

} // namespace lathe::search
