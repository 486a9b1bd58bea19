// Register tiles for a reduction with output axes: alone in its kernel, or fused under the tile loops of its
// consumer.
#include <algorithm>
#include <cmath>

#include "search/moves/draft.hpp"
#include "search/moves/join.hpp"
#include "search/suggest/readers.hpp"
#include "search/suggest/suggest.hpp"
#include "search/suggest/tile.hpp"

namespace lathe::search {
namespace {

/// Sets in `axis` the consumer's loop along this axis of the reduction, or both loops if a reshape splits the
/// axis. Returns the number of loops; 0: none.
size_t match_axis(const KernelPlan& reader, const Features& f, const Leaf& leaf, const AccessInfo& access,
                  TileProblem::Loop& axis) {
  const auto loop_of = [&](int l) { return reader.handles.loop(*f.loops[l].loop); };
  for (int l : leaf.loops)
    if (f.stride(access, l) == axis.store_stride && longest(f, l) == axis.extent && !axis.around)
      axis.around = loop_of(l);
  if (axis.around) return 1;
  for (int inner : leaf.loops)
    for (int outer : leaf.loops) {
      if (outer == inner || f.stride(access, inner) != axis.store_stride) continue;
      if (f.stride(access, outer) != axis.store_stride * static_cast<double>(longest(f, inner))) continue;
      if (longest(f, outer) * longest(f, inner) != axis.extent) continue;
      axis.around = loop_of(outer);
      axis.around_inner = loop_of(inner);
      axis.inner_extent = longest(f, inner);
      return 2;
    }
  return 0;
}

} // namespace

std::vector<Proposal> suggest_tile(const SuggestContext& c) {
  std::vector<Proposal> proposals;
  for (const TileProblem& problem : read_tile_problems(c.features, *c.plan.program, c.kernel, c.target)) {
    if (problem.lanes < 2) continue;
    for (const TileChoice& choice : tile_choices(problem, c)) {
      Proposal p = tile_moves(problem, choice);
      if (!p.moves.empty()) proposals.push_back(std::move(p));
    }
  }
  return proposals;
}

namespace {

/// The only store of a kernel that reads anything. Stores that fill a border read nothing.
std::optional<Leaf> only_reader(const lower::Program& program, const KernelPlan& kernel, const Features& f) {
  std::vector<Leaf> leaves = leaves_of(program, kernel, f);
  std::erase_if(leaves, [](const Leaf& leaf) { return leaf.first == leaf.store; });
  if (leaves.size() != 1) return {};
  return std::move(leaves[0]);
}

/// Proposes tiles of a reduction, fused under the loops of the kernel that reads it. The reader has one plain
/// store, and its loops are as lowered, or as the moves `before` made them.
void tiles_under(const SuggestContext& c, const KernelPlan& reader, const std::vector<Move>& before,
                 const lower::Stage& stage, const KernelPlan& producer, std::vector<Proposal>& proposals) {
  Features f, pf;
  read_features(reader.kernel, c.target, f);
  const std::optional<Leaf> leaf = only_reader(*c.plan.program, reader, f);
  if (!leaf || leaf->combine || leaf->random || leaf->own != 0 || leaf->loops.empty()) return;
  for (int l : leaf->loops)
    if (!is_serial(f, l)) return;
  read_features(producer.kernel, c.target, pf);
  std::vector<TileProblem> problems = read_tile_problems(pf, *c.plan.program, producer, c.target);
  if (problems.size() != 1 || !problems[0].whole) return;
  TileProblem& problem = problems[0];
  problem.lanes = std::min(problem.lanes, lanes_of(f, *leaf, c.target));
  // Each axis of the reduction must run along loops of the reader.
  bool aligned = problem.lanes >= 2;
  size_t matched = 0;
  int reads = 0;
  for (int a = leaf->first; a < leaf->store && aligned; ++a) {
    const AccessInfo& access = f.accesses[a];
    if (f.buffers[access.buffer].buffer->id != stage.buffer->id) continue;
    ++reads;
    for (auto& axis : problem.out) {
      const size_t loops = match_axis(reader, f, *leaf, access, axis);
      aligned &= loops > 0;
      matched += loops;
    }
    double moving = 0;
    for (int l : leaf->loops) moving += f.stride(access, l) != 0;
    aligned &= moving == static_cast<double>(matched) && leaf->loops.size() == matched;
  }
  if (!aligned || reads != 1) return;
  for (const TileChoice& choice : tile_choices(problem, c)) {
    Proposal p = tile_moves(problem, choice);
    if (p.moves.empty()) continue;
    p.moves.insert(p.moves.begin(), before.begin(), before.end());
    proposals.push_back(std::move(p));
  }
}

/// As tiles_under, after joining the axes that neither kernel tells apart. False if there are none.
bool tiles_under_joined(const SuggestContext& c, const lower::Stage& stage, const KernelPlan& producer,
                        std::vector<Proposal>& proposals) {
  const lower::Program& program = *c.plan.program;
  const std::vector<JoinedAxes> joins = joins_between(program, producer, stage.id, c.kernel);
  if (joins.empty()) return false;
  Draft to = draft_of(program, c.kernel), from = draft_of(program, producer);
  for (const JoinedAxes& axes : joins) join(to, axes.stage, axes.axis);
  if (!join_into(from.body, stage.buffer->id, seen_in(to.body, stage.buffer)->shape).empty()) return false;
  tiles_under(c, *finish(std::move(to)), moves_of(joins), stage, *finish(std::move(from)), proposals);
  return true;
}

} // namespace

std::vector<Proposal> suggest_fused_tile(const SuggestContext& c) {
  std::vector<Proposal> proposals;
  // A padded value: tiles go under the loops over the box inside its border.
  std::vector<Move> inside;
  KernelPlanRef box;
  if (c.kernel.stages.size() == 1) {
    const StageHandle padded(c.kernel.stages[0]);
    inside = {{MoveKind::Border, {padded}}};
    Draft draft = draft_of(*c.plan.program, c.kernel);
    if (border(draft, padded).empty()) box = finish(std::move(draft));
  }
  for (const int stage : c.kernel.reads) {
    const lower::Stage& info = c.plan.program->stages[stage];
    const KernelPlanRef producer = info.is_reduction ? sole_producer(c, stage) : nullptr;
    if (!producer) continue;
    if (!tiles_under_joined(c, info, *producer, proposals))
      tiles_under(c, c.kernel, {}, info, *producer, proposals);
    if (box) tiles_under(c, *box, inside, info, *producer, proposals);
  }
  return proposals;
}

} // namespace lathe::search
