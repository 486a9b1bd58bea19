#include "search/beam/joint_search.hpp"

#include <algorithm>
#include <unordered_set>

#include "core/hash.hpp"
#include "core/per_thread.hpp"
#include "search/beam/region_search.hpp"
#include "search/beam/search.hpp"
#include "search/cost/cost.hpp"
#include "search/cost/features.hpp"
#include "search/moves/draft.hpp"
#include "search/moves/plan_hash.hpp"
#include "search/suggest/suggest.hpp"

namespace lathe::search {
namespace {

constexpr double kWorthwhileJointRound = 0.995; // ratio of predicted times; a round must save half a per cent
constexpr double kShare = 0.4;       // share of the budget that may be spent before anything is measured
constexpr int kQuickBeam = 4;        // options.beam; a wider beam also tries more parameters of each move
constexpr double kLittle = 0.003;    // share of the program's time; a kernel below it is searched less
constexpr double kLittlePart = 0.01; // share of the program's time; a part below it is searched less
constexpr size_t kVariants = 512;    // variants of one kernel that are kept for measuring

bool intersects(const std::vector<int>& a, const std::vector<int>& b) {
  return std::any_of(a.begin(), a.end(), [&](int s) { return std::find(b.begin(), b.end(), s) != b.end(); });
}

/// Positions of the kernels of `b` that are not among `a`.
std::vector<size_t> different(const std::unordered_set<const KernelPlan*>& a, const Plan& b) {
  std::vector<size_t> out;
  for (size_t k = 0; k < b.kernels.size(); ++k)
    if (!a.contains(b.kernels[k].get())) out.push_back(k);
  return out;
}

std::unordered_set<const KernelPlan*> kernels_of(const Plan& plan) {
  std::unordered_set<const KernelPlan*> set;
  for (const auto& k : plan.kernels) set.insert(k.get());
  return set;
}

/// The moves that lead from one plan to a later one.
std::vector<Move> moves_between(const Plan& from, const Plan& to) {
  std::vector<Move> moves;
  for (const History* h = to.history.get(); h && h != from.history.get(); h = h->earlier.get())
    moves.push_back(h->move);
  std::reverse(moves.begin(), moves.end());
  return moves;
}

int inner_beam(const SearchOptions& options, bool thorough) {
  if (thorough) return std::max(4, options.beam);
  return options.quick ? 1 : std::min(3, options.beam);
}

std::vector<const Plan*> plans_of(const std::vector<Partition>& partitions) {
  std::vector<const Plan*> plans;
  for (const Partition& partition : partitions) plans.push_back(&partition.plan);
  return plans;
}

} // namespace

double least_seconds(const Plan& plan, const CostModel& model) {
  std::unordered_map<uint64_t, double> known;
  double sum = 0;
  for (const KernelPlanRef& kernel : plan.kernels) {
    const auto [at, is_new] = known.emplace(kernel->hash, 0);
    if (is_new) at->second = lower_bound(kernel->kernel, model.target(), model.machine());
    sum += at->second;
  }
  return sum;
}

JointSearch::JointSearch(const Plan& start, CostModel& model, const SearchOptions& options,
                         const Watch& watch)
    : start_(start), model_(model), options_(options), watch_(watch),
      thorough_((options.measure || options.beam > kQuickBeam) && !is_long(*start.program)),
      kernels_(model, inner_beam(options, thorough_), options.rounds, thorough_, options.joins,
               options.without, options.trace) {
  width_ = thorough_ ? std::max(2, options_.beam) : std::min(2, options_.beam);
  if (thorough_) return;
  const double own = least_seconds(start_, model_);
  const double whole = options.whole_seconds > 0 ? options.whole_seconds : own;
  kernels_.search_little_below(kLittle * whole);
  if (own < kLittlePart * whole) width_ = 1;
}

std::vector<Move> JointSearch::moves_since_start(const Plan& plan) const {
  return moves_between(start_, plan);
}

std::vector<Move> JointSearch::moves_of(const Plan& plan, const KernelPlan& kernel) const {
  std::vector<Move> moves;
  for (const Move& m : moves_since_start(plan))
    if (m.kind != MoveKind::Inline &&
        std::binary_search(kernel.stages.begin(), kernel.stages.end(), stage_of(m)))
      moves.push_back(m);
  return moves;
}

VariantKey JointSearch::key_of(const Plan& plan, const KernelPlan& kernel) const {
  uint64_t inlined = hash_text("inlined");
  for (const Move& m : moves_since_start(plan))
    if (m.kind == MoveKind::Inline) inlined = mix(inlined, static_cast<uint64_t>(stage_of(m)));
  return {inlined, kernel.stages};
}

uint64_t JointSearch::identity_of(const Plan& plan) const {
  uint64_t sum = 0; // the order of kernels doesn't matter
  for (const auto& kernel : plan.kernels) {
    uint64_t h = hash_text("kernel");
    for (int s : kernel->stages) h = mix(h, static_cast<uint64_t>(s));
    h = mix(h, hash_text("inlined"));
    for (int s : kernel->inlined) h = mix(h, static_cast<uint64_t>(s));
    // Rows one by one and rows in blocks allow different loops, so they count as different partitions.
    h = mix(h, std::any_of(kernel->moves.begin(), kernel->moves.end(),
                           [](const Move& m) { return m.kind == MoveKind::Split; }));
    sum += h;
  }
  return sum;
}

uint64_t JointSearch::neighbourhood(const Plan& plan, size_t k) const {
  const KernelPlan& kernel = *plan.kernels[k];
  uint64_t h = mix(kernel.hash, k == 0);
  for (const auto& other : plan.kernels) {
    if (intersects(other->stages, kernel.reads)) h = mix(mix(h, 1), other->hash);
    if (intersects(kernel.stages, other->reads)) h = mix(mix(h, 2), other->hash);
  }
  return h;
}

double JointSearch::bound(const KernelPlanRef& kernel) {
  const auto it = bounds_.find(kernel->hash);
  if (it != bounds_.end()) return it->second;
  return bounds_[kernel->hash] = lower_bound(kernel->kernel, model_.target(), model_.machine());
}

double JointSearch::seconds_of(const Plan& plan) {
  std::vector<std::pair<const Plan*, size_t>> kernels;
  for (size_t k = 0; k < plan.kernels.size(); ++k) kernels.emplace_back(&plan, k);
  kernels_.prepare(kernels);
  double sum = 0;
  for (size_t k = 0; k < plan.kernels.size(); ++k) sum += kernels_.best_seconds(plan, k);
  return sum;
}

std::vector<Proposal> JointSearch::proposals_for(const Plan& plan, size_t k) const {
  auto& features = per_thread<Features, struct JointFeatures>();
  read_features(plan.kernels[k]->kernel, model_.target(), features);
  const SuggestContext context{plan,
                               *plan.kernels[k],
                               features,
                               model_.target(),
                               model_.machine(),
                               thorough_,
                               options_.without,
                               plan.history == start_.history,
                               options_.keep_outputs};
  std::vector<Proposal> made = proposals(context, true);
  if (options_.allowed)
    std::erase_if(made, [&](const Proposal& p) { return !options_.allowed(plan, p.moves); });
  return made;
}

/// Adds the seconds of the kernels that the steps make, scheduled beside each other.
void JointSearch::schedule_new_kernels(const Partition& from, std::vector<Step>& steps) {
  const auto shared = kernels_of(from.plan);
  std::vector<std::pair<const Plan*, size_t>> kernels;
  for (const Step& step : steps)
    for (size_t k : different(shared, step.plan)) kernels.emplace_back(&step.plan, k);
  kernels_.prepare(kernels);
  for (Step& step : steps)
    for (size_t k : different(shared, step.plan)) {
      step.seconds += kernels_.best_seconds(step.plan, k);
      if (options_.measure) remember(step.plan, k);
    }
}

std::vector<JointSearch::Step> JointSearch::steps_from(const Partition& from) {
  const double slack = thorough_ ? 1.2 : 1.02;
  const size_t finalists = thorough_ ? 12 : 2; // proposals kept of those that lead to the same partition
  const auto shared = kernels_of(from.plan);
  std::vector<Step> steps;
  for (size_t k = 0; k < from.plan.kernels.size() && !watch_.over(kShare); ++k) {
    std::vector<Proposal> proposals = proposals_for(from.plan, k);
    if (proposals.empty()) continue;
    const uint64_t near = neighbourhood(from.plan, k);
    const auto known = promising_.find(near);
    std::vector<std::pair<size_t, Step>> made;
    TriedList tried; // for the trace
    const auto tell = [&](const std::vector<Move>& moves, const Plan* plan, double seconds,
                          std::string_view why) {
      if (!options_.trace) return;
      if (plan)
        tried.add_made(moves, plan_hash(*plan), seconds, why);
      else
        tried.add_refused(moves, why);
    };
    for (size_t i = 0; i < proposals.size(); ++i) {
      if (known != promising_.end() &&
          std::find(known->second.begin(), known->second.end(), i) == known->second.end())
        continue;
      ++proposed_;
      Applied applied = apply(from.plan, proposals[i].moves, model_.target());
      if (!applied.plan) {
        ++rejected_;
        tell(proposals[i].moves, nullptr, 0, applied.reason);
        fusions_.refused(from.plan, k, proposals[i].moves, applied.reason);
        continue;
      }
      Step step{std::move(proposals[i].moves), std::move(*applied.plan), {}, 0, 0, 0, 0, {}};
      const auto remaining = kernels_of(step.plan);
      double least = 0;
      for (size_t j = 0; j < from.plan.kernels.size(); ++j) {
        if (remaining.contains(from.plan.kernels[j].get())) continue;
        step.apart += kernels_.best_seconds(from.plan, j);
        step.replaced.push_back(j);
        step.touched.insert(step.touched.end(), from.plan.kernels[j]->stages.begin(),
                            from.plan.kernels[j]->stages.end());
      }
      step.raw = step.seconds = from.seconds - step.apart;
      for (size_t j : different(shared, step.plan)) {
        least += bound(step.plan.kernels[j]);
        step.raw += model_.seconds(step.plan.kernels[j]);
      }
      // Not worth scheduling: even with perfect loops the new kernels are no faster than the replaced ones.
      if (least > step.apart * slack) {
        tell(step.moves, &step.plan, step.raw, "slower than what it replaces, whatever its loops");
        fusions_.made(from.plan, step.replaced, step.moves, step.apart, least, true);
        continue;
      }
      step.identity = identity_of(step.plan);
      made.emplace_back(i, std::move(step));
    }
    std::stable_sort(made.begin(), made.end(),
                     [](const auto& a, const auto& b) { return a.second.raw < b.second.raw; });
    std::unordered_map<uint64_t, size_t> taken;
    std::vector<size_t> kept;
    std::vector<Step> finals;
    for (auto& [i, step] : made) {
      if (taken[step.identity]++ >= finalists) {
        tell(step.moves, &step.plan, step.raw, "better proposals lead to the same partition");
        continue;
      }
      kept.push_back(i);
      finals.push_back(std::move(step));
    }
    schedule_new_kernels(from, finals);
    for (Step& step : finals) {
      tell(step.moves, &step.plan, step.seconds, {});
      fusions_.made(from.plan, step.replaced, step.moves, step.apart,
                    step.apart + step.seconds - from.seconds, false);
      steps.push_back(std::move(step));
    }
    if (options_.trace && !tried.empty()) options_.trace->plans_from(from.plan, tried);
    if (known == promising_.end()) promising_.emplace(near, std::move(kept));
  }
  std::stable_sort(steps.begin(), steps.end(),
                   [](const Step& a, const Step& b) { return a.seconds < b.seconds; });
  return steps;
}

/// The partition after all improving steps that touch different kernels, so that a program of many kernels
/// takes few rounds.
Partition JointSearch::combined(const Partition& from, const std::vector<Step>& steps) {
  Partition out = from;
  std::vector<int> touched;
  size_t taken = 0;
  for (const Step& step : steps) {
    if (step.seconds >= from.seconds * (1 - 1e-9)) break;
    if (intersects(step.touched, touched)) continue;
    Applied applied = apply(out.plan, step.moves, model_.target());
    if (!applied.plan) continue;
    out.plan = std::move(*applied.plan);
    touched.insert(touched.end(), step.touched.begin(), step.touched.end());
    ++taken;
  }
  if (taken > 1) {
    out.seconds = seconds_of(out.plan);
    out.identity = identity_of(out.plan);
  }
  return taken > 1 ? out : from;
}

/// The partitions where the search starts: the program as it is, and with its cheap stages inlined by one
/// macro-move. A quick search takes the former only if there is nothing to inline: scheduling one kernel per
/// stage takes longer than the rest of the search.
std::vector<Partition> JointSearch::seeds() {
  std::vector<Partition> out;
  for (const Proposal& p : proposals_for(start_, 0)) {
    const bool inlines =
        std::all_of(p.moves.begin(), p.moves.end(), [](const Move& m) { return m.kind == MoveKind::Inline; });
    if (!inlines || p.moves.empty()) continue;
    ++proposed_;
    if (Applied applied = apply(start_, p.moves, model_.target()); applied.plan)
      out.push_back({std::move(*applied.plan), 0, 0});
    else
      ++rejected_;
  }
  if (out.empty() || thorough_) out.push_back({start_, 0, 0});
  // The partition that the staged search would choose is one more place to start from.
  if (thorough_) out.push_back(graph_only());
  double best = -1;
  std::vector<Partition> kept;
  for (Partition& p : out) {
    double least = 0;
    for (const auto& kernel : p.plan.kernels) least += bound(kernel);
    if (best >= 0 && least > best * (thorough_ ? 1.2 : 1.02)) {
      if (options_.trace) options_.trace->starts_at(p.plan, p.seconds);
      continue;
    }
    p.seconds = seconds_of(p.plan);
    p.identity = identity_of(p.plan);
    if (options_.measure)
      for (size_t k = 0; k < p.plan.kernels.size(); ++k) remember(p.plan, k);
    if (best < 0 || p.seconds < best) best = p.seconds;
    if (options_.trace) options_.trace->starts_at(p.plan, p.seconds);
    kept.push_back(std::move(p));
  }
  std::stable_sort(kept.begin(), kept.end(),
                   [](const Partition& a, const Partition& b) { return a.seconds < b.seconds; });
  return kept;
}

std::vector<Partition> JointSearch::run() {
  std::vector<Partition> beam = seeds();
  if (options_.quick) return beam;
  std::vector<Partition> frontier = beam;
  std::unordered_set<uint64_t> seen;
  for (const Partition& p : beam) seen.insert(p.identity);
  for (int round = 0; round < options_.rounds && !frontier.empty() && !watch_.over(kShare); ++round) {
    std::vector<Partition> next;
    for (const Partition& from : frontier) {
      const std::vector<Step> steps = steps_from(from);
      if (Partition all = combined(from, steps); seen.insert(all.identity).second) {
        if (options_.trace) {
          TriedList tried;
          tried.add_made(moves_between(from.plan, all.plan), plan_hash(all.plan), all.seconds);
          options_.trace->plans_from(from.plan, tried);
        }
        next.push_back(std::move(all));
      }
      for (const Step& s : steps) {
        if (next.size() > 4 * width_ && s.seconds > from.seconds) break;
        if (seen.insert(s.identity).second) next.push_back({s.plan, s.seconds, s.identity});
      }
    }
    const double before = beam.front().seconds;
    const auto by_cost = [](const Partition& a, const Partition& b) { return a.seconds < b.seconds; };
    std::stable_sort(next.begin(), next.end(), by_cost);
    if (next.size() > width_) next.resize(width_);
    if (options_.trace) options_.trace->keeps_plans(plans_of(next));
    for (const Partition& p : next) beam.push_back(p);
    std::stable_sort(beam.begin(), beam.end(), by_cost);
    if (beam.size() > width_) beam.resize(width_);
    frontier = std::move(next);
    if (beam.front().seconds > before * kWorthwhileJointRound) break;
  }
  return beam;
}

Partition JointSearch::graph_only() {
  const auto bytes_and_launches = [&](const Plan& plan) {
    double sum = 0;
    for (const auto& kernel : plan.kernels) sum += bound(kernel);
    return sum;
  };
  Partition at{start_, bytes_and_launches(start_), identity_of(start_)};
  for (int round = 0; round < options_.rounds * 4; ++round) {
    Partition best = at;
    for (size_t k = 0; k < at.plan.kernels.size(); ++k)
      for (const Proposal& p : proposals_for(at.plan, k)) {
        const bool graph = std::all_of(p.moves.begin(), p.moves.end(), [](const Move& m) {
          return m.kind == MoveKind::Inline || m.kind == MoveKind::FuseAt;
        });
        if (!graph) continue;
        ++proposed_;
        Applied applied = apply(at.plan, p.moves, model_.target());
        if (!applied.plan) {
          ++rejected_;
          continue;
        }
        const double seconds = bytes_and_launches(*applied.plan);
        if (seconds < best.seconds) best = {std::move(*applied.plan), seconds, 0};
      }
    if (best.seconds >= at.seconds * kWorthwhileJointRound) break;
    at = std::move(best);
  }
  at.seconds = seconds_of(at.plan);
  at.identity = identity_of(at.plan);
  return at;
}

std::shared_ptr<const std::vector<TriedFusion>> JointSearch::fusions_of(const Plan& found) const {
  return std::make_shared<const std::vector<TriedFusion>>(fusions_.of(found));
}

Plan JointSearch::schedule(const Partition& partition) {
  Plan out = partition.plan;
  for (size_t k = 0; k < partition.plan.kernels.size(); ++k) {
    const KernelPlanRef& kernel = partition.plan.kernels[k];
    for (const Schedule& s : kernels_.schedules(partition.plan, k)) {
      const std::vector<Move> moves =
          moves_for_equal(*out.program, s.moves, *kernels_.original(kernel->hash), *kernel);
      Applied applied = apply(out, moves, model_.target());
      if (!applied.plan) continue;
      out = std::move(*applied.plan);
      break;
    }
  }
  return out;
}

void JointSearch::remember(const Plan& plan, size_t k) {
  const KernelPlanRef& kernel = plan.kernels[k];
  const std::vector<Move> before = moves_of(plan, *kernel);
  auto& pool = pool_[key_of(plan, *kernel)];
  for (const Schedule& s : kernels_.schedules(plan, k)) {
    if (std::any_of(pool.begin(), pool.end(),
                    [&](const Variant& v) { return v.kernel->hash == s.kernel->hash; }))
      continue;
    Variant v{s.kernel, before, s.seconds};
    const KernelPlan& original = *kernels_.original(kernel->hash);
    std::vector<Move> moves = moves_for_equal(*plan.program, s.moves, original, *kernel);
    if (original.stages != kernel->stages) {
      // Later proposals have to name the loops of this kernel, not those of the equal kernel.
      const Applied applied = apply(plan, moves, model_.target());
      if (!applied.plan) continue;
      v.kernel = *std::find_if(applied.plan->kernels.begin(), applied.plan->kernels.end(),
                               [&](const auto& other) { return other->stages == kernel->stages; });
    }
    v.moves.insert(v.moves.end(), moves.begin(), moves.end());
    pool.push_back(std::move(v));
  }
  std::stable_sort(pool.begin(), pool.end(),
                   [](const Variant& a, const Variant& b) { return a.predicted < b.predicted; });
  if (pool.size() > kVariants) pool.resize(kVariants);
}

std::map<VariantKey, std::vector<Variant>> JointSearch::variants(const std::vector<Partition>& partitions) {
  std::map<VariantKey, std::vector<Variant>> out;
  for (const Partition& p : partitions)
    for (size_t k = 0; k < p.plan.kernels.size(); ++k) {
      const VariantKey key = key_of(p.plan, *p.plan.kernels[k]);
      if (out.contains(key)) continue;
      remember(p.plan, k);
      out.emplace(key, pool_[key]);
    }
  return out;
}

} // namespace lathe::search
