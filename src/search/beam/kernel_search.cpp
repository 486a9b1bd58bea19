#include "search/beam/kernel_search.hpp"

#include <algorithm>
#include <chrono>

#include <tuple>
#include <unordered_set>

#include "core/per_thread.hpp"
#include "search/cost/features.hpp"
#include "search/moves/draft.hpp"
#include "search/moves/join.hpp"
#include "search/suggest/suggest.hpp"
#include "view/scoped_pieces.hpp"

namespace lathe::search {
namespace {

constexpr double kWorthwhileRound = 0.99; // ratio of predicted times; a round must save one per cent
constexpr double kAsGood = 1.01; // ratio to the best; among these the fewest moves win: less code to compile
constexpr size_t kKept = 64, kKeptForTuning = 512; // schedules kept of a kernel for measuring
constexpr size_t kParallelised = 1024;             // schedules of a kernel that get parallel loops
/// Proposals of an untuned search, after which its beam is one schedule wide: a graph of a hundred ops is
/// to be compiled within two seconds. Single layers need fewer.
constexpr int64_t kWithWholeBeam = 3000;
constexpr int64_t kUsualProposals = 15; // of a kernel: the mean over models
/// Bytes of tried proposals that a trace is told at once. More would leave the caches, and pages taken from
/// the system for them cost a trace more than its text.
constexpr size_t kToldAtOnce = 16 << 10;

bool touches(const std::vector<int>& stages, const std::vector<int>& reads) {
  return std::any_of(reads.begin(), reads.end(),
                     [&](int s) { return std::binary_search(stages.begin(), stages.end(), s); });
}

bool has_parallel_loop(const ast::Kernel& kernel) {
  bool found = false;
  ast::visit(kernel.body, [&](const ast::Stmt& stmt, const auto&) {
    const auto* loop = std::get_if<ast::For>(&stmt.node);
    found |= loop && loop->kind == ast::LoopKind::Parallel;
  });
  return found;
}

std::vector<KernelPlanRef> kernels_of(const std::vector<Schedule>& schedules) {
  std::vector<KernelPlanRef> kernels;
  for (const Schedule& schedule : schedules) kernels.push_back(schedule.kernel);
  return kernels;
}

} // namespace

/// A plan of the kernel and, after it, the kernels that read its results: they decide which of its buffers
/// are visible outside.
Plan KernelSearch::alone(const Plan& plan, size_t k) const {
  Plan small;
  small.program = plan.program;
  small.kernels.push_back(plan.kernels[k]);
  for (size_t i = 0; i < plan.kernels.size(); ++i)
    if (i != k && touches(plan.kernels[k]->stages, plan.kernels[i]->reads))
      small.kernels.push_back(plan.kernels[i]);
  return small;
}

/// `from` with the proposal's moves; nothing if these are not legal. `here` has the kernel of `from` first.
std::optional<Schedule> KernelSearch::with(Proposal proposal, const Schedule& from, const Plan& here) {
  if (tried_.bytes().size() >= kToldAtOnce) tell(*from.kernel);
  ++proposed_;
  Applied applied = apply(here, proposal.moves, model_.target());
  if (!applied.plan) {
    ++rejected_;
    if (trace_) tried_.add_refused(proposal.moves, applied.reason);
    return {};
  }
  Schedule next{applied.plan->kernels[0], from.moves, 0};
  next.moves.insert(next.moves.end(), proposal.moves.begin(), proposal.moves.end());
  next.seconds = model_.seconds(next.kernel);
  if (trace_) tried_.add_made(proposal.moves, next.kernel->hash, next.seconds);
  return next;
}

/// Tells the trace what was tried on this kernel.
void KernelSearch::tell(const KernelPlan& from) {
  if (trace_ && !tried_.empty()) trace_->kernels_from(from, tried_);
  tried_.clear();
}

std::vector<Schedule> KernelSearch::expand(const Plan& small, const Schedule& from) {
  auto& features = per_thread<Features, struct ExpandedFeatures>();
  Plan here = small;
  here.kernels[0] = from.kernel;
  read_features(from.kernel->kernel, model_.target(), features);
  const SuggestContext context{here,      *from.kernel, features, model_.target(), model_.machine(),
                               thorough_, without_};
  std::vector<Proposal> all = proposals(context, false);
  std::vector<Schedule> made;
  const auto start = std::chrono::steady_clock::now();
  for (Proposal& p : all)
    if (std::optional<Schedule> next = with(std::move(p), from, here)) made.push_back(std::move(*next));
  scoring_seconds_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  scored_ += static_cast<int64_t>(all.size());
  tell(*from.kernel);
  return made;
}

/// Replaces each serial schedule by the parallel one that the model ranks best, if that is faster. The beam
/// makes only the most promising schedules parallel; those measured after them have to be as complete.
void KernelSearch::parallelise(const Plan& small, std::vector<Schedule>& all) {
  auto& features = per_thread<Features, struct ParallelFeatures>();
  Plan here = small;
  for (Schedule& schedule : all) {
    if (has_parallel_loop(schedule.kernel->kernel)) continue;
    here.kernels[0] = schedule.kernel;
    read_features(schedule.kernel->kernel, model_.target(), features);
    const SuggestContext context{here,     *schedule.kernel, features, model_.target(), model_.machine(),
                                 thorough_};
    const Schedule serial = schedule;
    for (Proposal& p : suggest_parallel(context))
      if (std::optional<Schedule> next = with(std::move(p), serial, here);
          next && next->seconds < schedule.seconds)
        schedule = std::move(*next);
    tell(*serial.kernel);
  }
}

const std::vector<Schedule>& KernelSearch::schedules(const Plan& plan, size_t k) {
  const KernelPlanRef& kernel = plan.kernels[k];
  if (auto it = known_.find(kernel->hash); it != known_.end()) return it->second.schedules;
  const Plan small = alone(plan, k);
  std::vector<Schedule> all{{kernel, {}, model_.seconds(kernel)}};
  std::unordered_set<uint64_t> seen{kernel->hash};
  if (trace_) trace_->schedules(plan, k, all[0].seconds);
  std::vector<Schedule> frontier = all;
  // Where axes can be joined, all other moves do better on the longer loops.
  if (std::vector<Move> joins; joins_ && !(joins = moves_of(joins_of(*plan.program, *kernel))).empty()) {
    Applied joined = apply(small, joins, model_.target());
    const KernelPlanRef& made = joined.plan->kernels[0];
    if (trace_) tried_.add_made(joins, made->hash, model_.seconds(made));
    tell(*kernel);
    all.push_back({made, std::move(joins), model_.seconds(made)});
    seen.insert(made->hash);
    frontier = {all.back()};
  }
  double best = all[0].seconds;
  const auto by_cost = [](const Schedule& a, const Schedule& b) {
    return a.seconds != b.seconds ? a.seconds < b.seconds : a.moves.size() < b.moves.size();
  };
  for (int round = 0; round < rounds_ && !frontier.empty(); ++round) {
    std::vector<Schedule> next;
    for (const Schedule& from : frontier)
      for (Schedule& s : expand(small, from))
        if (seen.insert(s.kernel->hash).second) next.push_back(std::move(s));
    std::stable_sort(next.begin(), next.end(), by_cost);
    all.insert(all.end(), next.begin(), next.end());
    if (next.empty() || next[0].seconds > best * kWorthwhileRound) break;
    best = next[0].seconds;
    const bool is_narrow = !thorough_ && (proposed_ > kWithWholeBeam || best < little_below_);
    const int beam = is_narrow ? 1 : beam_;
    if (next.size() > static_cast<size_t>(beam)) next.resize(beam);
    frontier = std::move(next);
    if (trace_) trace_->keeps_kernels(kernels_of(frontier));
  }
  std::stable_sort(all.begin(), all.end(), by_cost);
  if (thorough_ && model_.target().threads > 1) {
    if (all.size() > kParallelised) all.resize(kParallelised);
    parallelise(small, all);
    std::unordered_set<uint64_t> known;
    std::erase_if(all, [&](const Schedule& s) { return !known.insert(s.kernel->hash).second; });
    std::stable_sort(all.begin(), all.end(), by_cost);
  }
  size_t simplest = 0;
  for (size_t i = 1; i < all.size() && all[i].seconds <= all[0].seconds * kAsGood; ++i)
    if (all[i].moves.size() < all[simplest].moves.size()) simplest = i;
  std::rotate(all.begin(), all.begin() + static_cast<long>(simplest),
              all.begin() + static_cast<long>(simplest) + 1);
  if (const size_t kept = thorough_ ? kKeptForTuning : kKept; all.size() > kept) all.resize(kept);
  return known_.emplace(kernel->hash, Known{kernel, std::move(all)}).first->second.schedules;
}

void KernelSearch::prepare(const std::vector<std::pair<const Plan*, size_t>>& kernels) {
  std::vector<std::pair<const Plan*, size_t>> fresh;
  std::unordered_set<uint64_t> seen;
  for (const auto& [plan, k] : kernels)
    if (const uint64_t hash = plan->kernels[k]->hash; !known_.contains(hash) && seen.insert(hash).second)
      fresh.emplace_back(plan, k);
  // Each has a search of its own, which begins as if those before it had made the usual number of proposals.
  TracedPieces traces(trace_, fresh.size());
  std::vector<KernelSearch> searches;
  searches.reserve(fresh.size());
  for (size_t i = 0; i < fresh.size(); ++i) {
    KernelSearch one(model_, beam_, rounds_, thorough_, joins_, without_, traces[i]);
    one.little_below_ = little_below_;
    one.proposed_ = proposed_ + static_cast<int64_t>(i) * kUsualProposals;
    searches.push_back(std::move(one));
  }
  const auto search_one = [&](size_t i) { searches[i].schedules(*fresh[i].first, fresh[i].second); };
  if (thorough_) {
    for (size_t i = 0; i < fresh.size(); ++i) search_one(i);
  } else {
    on_cores_in_scope(fresh.size(), search_one);
  }
  traces.join();
  int64_t made = 0;
  for (size_t i = 0; i < fresh.size(); ++i) {
    KernelSearch& one = searches[i];
    made += one.proposed_ - (proposed_ + static_cast<int64_t>(i) * kUsualProposals);
    rejected_ += one.rejected_;
    scored_ += one.scored_;
    scoring_seconds_ += one.scoring_seconds_;
    known_.merge(one.known_);
  }
  proposed_ += made;
}

std::vector<Schedule> KernelSearch::neighbours(const Plan& plan, size_t k, const Schedule& from) {
  return expand(alone(plan, k), from);
}

std::vector<Move> moves_for_equal(const lower::Program& program, const std::vector<Move>& moves,
                                  const KernelPlan& from, const KernelPlan& to) {
  if (from.stages == to.stages) return moves;
  std::vector<std::pair<BufferHandle, BufferHandle>> names; // of stages and inputs: in `from`, in `to`
  const auto& [params, others] = std::tie(from.kernel.params, to.kernel.params);
  for (size_t i = 0; i < params.size() && i < others.size(); ++i)
    names.emplace_back(handle_of(program, from.handles, *params[i].buffer),
                       handle_of(program, to.handles, *others[i].buffer));
  for (size_t i = 0; i < from.stages.size() && i < to.stages.size(); ++i)
    names.emplace_back(BufferHandle::of_stage(from.stages[i]), BufferHandle::of_stage(to.stages[i]));
  std::vector<Move> out;
  for (const Move& move : moves)
    out.push_back(in_terms_of(move, [&](BufferHandle old) {
      for (const auto& [here, there] : names)
        if (here == old) return there;
      return old;
    }));
  return out;
}

} // namespace lathe::search
