#include "compile/explain/borders.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "search/beam/region_search.hpp"
#include "search/cost/features.hpp"

namespace lathe::pipeline {
namespace {

using search::KernelPlan;
using search::Move;
using search::MoveKind;
using search::Plan;

constexpr int kBeam = 3, kRounds = 12; // of the search of loops, as an untuned compilation has them

/// The kernels that these moves make, with no more loop moves than those that the fusions stand under.
Plan partition_of(const std::shared_ptr<const lower::Program>& program, const std::vector<Move>& moves,
                  const search::Target& target) {
  Plan at = search::initial_plan(program);
  std::vector<Move> splits; // not yet applied
  for (const Move& move : moves) {
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

/// The kernel of the plan that computes these stages; null if it has none.
const search::KernelPlanRef* kernel_of(const Plan& plan, const std::vector<int>& stages) {
  const auto found = std::find_if(plan.kernels.begin(), plan.kernels.end(),
                                  [&](const auto& kernel) { return kernel->stages == stages; });
  return found == plan.kernels.end() ? nullptr : &*found;
}

/// The plainest fusion: all of a stage beside the kernel that reads it.
std::vector<Move> plainest(const KernelPlan& reader, int stage) {
  return {{MoveKind::FuseAt,
           {search::StageHandle(stage), search::Place(search::StageHandle(reader.stages.back())),
            ast::Scope::Packed}}};
}

} // namespace

Borders::Borders(const Plan& plan, std::vector<Move> moves, const std::vector<search::TriedFusion>* fusions,
                 search::CostModel& model)
    : plan_(plan), moves_(std::move(moves)), fusions_(fusions), model_(model),
      loops_(model, kBeam, kRounds, false, true) {}

const Plan& Borders::partition() {
  if (!partition_) partition_ = partition_of(plan_.program, moves_, model_.target());
  return *partition_;
}

std::string Borders::name(int stage) const {
  return plan_.program->stages[static_cast<size_t>(stage)].buffer->name;
}

/// Predicted seconds, with their best loops, of those kernels of `plan` that `than` does not have.
double Borders::seconds_of_new(const Plan& plan, const Plan& than) {
  double sum = 0;
  for (size_t k = 0; k < plan.kernels.size(); ++k)
    if (std::find(than.kernels.begin(), than.kernels.end(), plan.kernels[k]) == than.kernels.end())
      sum += loops_.best_seconds(plan, k);
  return sum;
}

KernelBorder Borders::by_search(const KernelPlan& reader, const KernelPlan& producer, int stage) const {
  KernelBorder border{.other = producer.kernel.name, .stage = name(stage)};
  // After a search, kernels may be put together: then it tried fusions of their parts.
  const auto has = [](const KernelPlan& kernel, const std::vector<int>& part) {
    return std::includes(kernel.stages.begin(), kernel.stages.end(), part.begin(), part.end());
  };
  const auto tried = std::find_if(fusions_->begin(), fusions_->end(), [&](const search::TriedFusion& f) {
    return has(reader, f.reader) && has(producer, f.producer);
  });
  if (tried != fusions_->end()) {
    border.tried = KernelBorder::Tried::BySearch;
    border.moves = text_of(tried->moves);
    border.legal = tried->legal;
    border.reason = tried->reason;
    border.apart = tried->apart;
    border.together = tried->together;
    border.at_least = tried->at_least;
    border.earlier = tried->earlier;
    return border;
  }
  const auto readers = std::count_if(plan_.kernels.begin(), plan_.kernels.end(), [&](const auto& k) {
    return std::binary_search(k->reads.begin(), k->reads.end(), stage);
  });
  if (plan_.program->stages[static_cast<size_t>(stage)].is_output)
    border.reason = border.stage + " is an output";
  else if (readers > 1)
    border.reason = fmt::format("{} kernels read {}", readers, border.stage);
  else if (search::has_regions(*plan_.program))
    border.reason = "a program of so many stages is searched by regions, and no fusion crosses two of them";
  return border;
}

/// The proposals that would fuse the stage into the reader, a kernel of the partition.
std::vector<std::vector<Move>> Borders::tries(const KernelPlan& reader, int stage) {
  search::Features features;
  read_features(reader.kernel, model_.target(), features);
  const search::SuggestContext context{partition(), reader, features, model_.target(), model_.machine()};
  std::vector<std::vector<Move>> found;
  for (search::Proposal& proposal : search::proposals(context, true))
    if (std::any_of(proposal.moves.begin(), proposal.moves.end(), [&](const Move& move) {
          return (move.kind == MoveKind::FuseAt || move.kind == MoveKind::Inline) && stage_of(move) == stage;
        }))
      found.push_back(std::move(proposal.moves));
  if (found.empty()) found.push_back(plainest(reader, stage));
  return found;
}

/// Nothing if no fusion alone makes such kernels.
std::optional<KernelBorder> Borders::again(const KernelPlan& reader, const KernelPlan& producer, int stage) {
  const search::KernelPlanRef* before = kernel_of(partition(), reader.stages);
  if (!before || !kernel_of(partition(), producer.stages)) return {};
  KernelBorder border{
      .other = producer.kernel.name, .stage = name(stage), .tried = KernelBorder::Tried::Again};
  for (const std::vector<Move>& moves : tries(**before, stage)) {
    const search::Applied applied = apply(partition(), moves, model_.target());
    if (!applied.plan) {
      if (!border.legal && border.reason.empty())
        border.moves = text_of(moves), border.reason = applied.reason;
      continue;
    }
    const double together = seconds_of_new(*applied.plan, partition());
    if (border.legal && together >= border.together) continue;
    border.legal = true;
    border.reason.clear();
    border.moves = text_of(moves);
    border.apart = seconds_of_new(partition(), *applied.plan);
    border.together = together;
  }
  return border;
}

std::vector<KernelBorder> Borders::of(const KernelPlan& kernel) {
  std::vector<KernelBorder> borders;
  if (kernel.recurrence >= 0) return borders;
  std::vector<const KernelPlan*> known;
  for (const int stage : kernel.reads) {
    const auto producer = std::find_if(plan_.kernels.begin(), plan_.kernels.end(),
                                       [&](const auto& k) { return computes(*k, stage); });
    if (producer == plan_.kernels.end() || (*producer)->recurrence >= 0) continue;
    if (std::find(known.begin(), known.end(), producer->get()) != known.end()) continue;
    known.push_back(producer->get());
    if (fusions_)
      borders.push_back(by_search(kernel, **producer, stage));
    else if (std::optional<KernelBorder> border = again(kernel, **producer, stage))
      borders.push_back(std::move(*border));
  }
  return borders;
}

} // namespace lathe::pipeline
