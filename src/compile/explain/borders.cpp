#include "compile/explain/borders.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "search/cost/features.hpp"

namespace lathe::pipeline {
namespace {

using search::KernelPlan;
using search::Move;
using search::MoveKind;
using search::Plan;

constexpr int kBeam = 3, kRounds = 12; // of the search of loops, as an untuned compilation has them

/// The plan's kernels with no more loop moves than those that the fusions stand under.
Plan partition_of(const Plan& plan, const search::Target& target) {
  Plan at = search::initial_plan(plan.program);
  std::vector<Move> splits; // not yet applied
  for (const Move& move : plan.moves()) {
    if (move.kind == MoveKind::Split) splits.push_back(move);
    const MoveKind fusions[] = {MoveKind::Inline, MoveKind::FuseAt, MoveKind::Merge, MoveKind::StoreWith,
                                MoveKind::FuseLoops};
    if (std::find(std::begin(fusions), std::end(fusions), move.kind) == std::end(fusions)) continue;
    if (search::Applied applied = apply(at, move, target); applied.plan) {
      at = std::move(*applied.plan);
      continue;
    }
    // Under a block of rows: a split made the loop.
    std::vector<Move> both = splits;
    std::erase_if(both, [&](const Move& split) {
      const auto* loop = std::get_if<search::LoopHandle>(&split.arguments.front());
      return !loop ||
             std::none_of(move.arguments.begin(), move.arguments.end(), [&](const search::Argument& a) {
               const auto* place = std::get_if<search::Place>(&a);
               const auto* itself = std::get_if<search::LoopHandle>(&a);
               return (place && place->loop && place->loop.is_part_of(*loop)) ||
                      (itself && *itself && itself->is_part_of(*loop));
             });
    });
    const size_t needed = both.size();
    both.push_back(move);
    search::Applied applied = apply(at, both, target);
    if (!applied.plan) continue;
    at = std::move(*applied.plan);
    std::erase_if(splits, [&](const Move& split) {
      return std::find(both.begin(), both.begin() + static_cast<long>(needed), split) !=
             both.begin() + static_cast<long>(needed);
    });
  }
  return at;
}

std::string text_of(const std::vector<Move>& moves) {
  std::vector<std::string> texts;
  for (const Move& move : moves) texts.push_back(to_string(move));
  return fmt::format("{}", fmt::join(texts, "; "));
}

bool computes(const KernelPlan& kernel, int stage) {
  return std::binary_search(kernel.stages.begin(), kernel.stages.end(), stage);
}

} // namespace

Borders::Borders(const Plan& plan, search::CostModel& model)
    : model_(model), loops_(model, kBeam, kRounds, false, true),
      partition_(partition_of(plan, model.target())) {}

/// Predicted seconds, with their best loops, of those kernels of `plan` that `than` does not have.
double Borders::seconds_of_new(const Plan& plan, const Plan& than) {
  double sum = 0;
  for (size_t k = 0; k < plan.kernels.size(); ++k)
    if (std::find(than.kernels.begin(), than.kernels.end(), plan.kernels[k]) == than.kernels.end())
      sum += loops_.best_seconds(plan, k);
  return sum;
}

KernelBorder Borders::border(size_t reader, size_t producer, int stage) {
  const KernelPlan& kernel = *partition_.kernels[reader];
  KernelBorder border{.other = partition_.kernels[producer]->kernel.name,
                      .stage = partition_.program->stages[static_cast<size_t>(stage)].buffer->name};
  search::Features features;
  read_features(kernel.kernel, model_.target(), features);
  const search::SuggestContext context{partition_, kernel, features, model_.target(), model_.machine()};
  std::vector<std::vector<Move>> tries;
  for (search::Proposal& proposal : search::proposals(context, true))
    if (std::any_of(proposal.moves.begin(), proposal.moves.end(), [&](const Move& move) {
          return (move.kind == MoveKind::FuseAt || move.kind == MoveKind::Inline) && stage_of(move) == stage;
        }))
      tries.push_back(std::move(proposal.moves));
  if (tries.empty())
    tries.push_back({{MoveKind::FuseAt,
                      {search::StageHandle(stage), search::Place(search::StageHandle(kernel.stages.back())),
                       ast::Scope::Packed}}});
  for (const std::vector<Move>& moves : tries) {
    const search::Applied applied = apply(partition_, moves, model_.target());
    if (!applied.plan) {
      if (!border.legal && border.reason.empty())
        border.moves = text_of(moves), border.reason = applied.reason;
      continue;
    }
    const double together = seconds_of_new(*applied.plan, partition_);
    if (border.legal && together >= border.together) continue;
    border.legal = true;
    border.reason.clear();
    border.moves = text_of(moves);
    border.apart = seconds_of_new(partition_, *applied.plan);
    border.together = together;
  }
  return border;
}

std::vector<KernelBorder> Borders::of(const KernelPlan& kernel) {
  std::vector<KernelBorder> borders;
  const auto& all = partition_.kernels;
  const auto reader =
      std::find_if(all.begin(), all.end(), [&](const auto& k) { return k->stages == kernel.stages; });
  if (reader == all.end() || (*reader)->recurrence >= 0) return borders;
  for (const int stage : (*reader)->reads) {
    const auto producer =
        std::find_if(all.begin(), all.end(), [&](const auto& k) { return computes(*k, stage); });
    if (producer == all.end() || (*producer)->recurrence >= 0) continue;
    borders.push_back(border(static_cast<size_t>(reader - all.begin()),
                             static_cast<size_t>(producer - all.begin()), stage));
  }
  return borders;
}

} // namespace lathe::pipeline
