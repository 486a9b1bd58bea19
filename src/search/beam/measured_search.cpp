#include "search/beam/measured_search.hpp"

#include <algorithm>
#include <deque>
#include <random>
#include <unordered_map>
#include <unordered_set>

#include "search/beam/choices.hpp"
#include "search/beam/families.hpp"
#include "search/beam/measurement.hpp"
#include "search/beam/search.hpp"
#include "search/cost/cost.hpp"
#include "search/store/database.hpp"
#include "search/store/log.hpp"

namespace lathe::search {
namespace {

constexpr double kFirstLimit = 100; // ratio to the predicted time; first time limit of a kernel
constexpr double kFirstLimitLeast = 1, kFirstLimitMost = 10; // seconds; bounds of the first time limit
constexpr size_t kAhead = 4;      // candidates chosen ahead, including the one being measured
constexpr size_t kSurprises = 5;  // candidates; each kSurprises-th is drawn at random
constexpr double kPlausible = 3;  // ratio to the best predicted time; slower candidates are not drawn
constexpr double kNearBest = 1.1; // ratio to the best measured time; up to it, variants get neighbours
constexpr size_t kPatience = 400; // measurements of a kernel without improvement, after which it is left
constexpr double kAside = 0.3;   // weight of partitions that are best neither by the model nor by measurement
constexpr double kRival = 1.5;   // ratio to the best measured sum; up to it, other partitions are rivals
constexpr size_t kRivals = 2;    // plans
constexpr double kChoice = 1.3;  // ratio to the kernel's best time; up to it, schedules get a second choice
constexpr size_t kChoices = 6;   // schedules of a kernel, of different families
constexpr size_t kFinalists = 4; // further schedules of a kernel that are near the best, of any family

struct Candidate {
  Variant variant;
  uint64_t family;
  explicit Candidate(Variant v) : variant(std::move(v)), family(family_of(variant.moves)) {}
};

/// A kernel that one or more partitions share, known by the stages it computes, with its variants.
struct Slot {
  std::vector<Candidate> open;               // not measured yet, best predicted last
  Families families;                         // the model's errors for this kernel
  std::unordered_set<uint64_t> known;        // hashes of all kernels that were ever open
  std::multimap<double, Variant> unexpanded; // measured, neighbours not proposed yet; by seconds
  std::optional<Variant> first, best;        // measured: the first one, and the fastest
  double best_seconds = 0;
  std::unordered_map<uint64_t, std::pair<double, Variant>> best_of; // by family: seconds and fastest variant
  std::vector<std::pair<double, Variant>> fastest;                  // at most kFinalists, sorted by seconds
  double drift = 1;  // ratio of a time measured now to an earlier search's
  double weight = 0; // see weigh()
  size_t tried = 0, since_better = 0;
};

struct Chosen {
  Slot* slot;
  Candidate candidate;
  bool prepared = false;
};

class Measurer {
public:
  Measurer(JointSearch& search, const Plan& start, const std::vector<Partition>& partitions, CostModel& model,
           const SearchOptions& options, const Watch& watch)
      : search_(search), start_(start), partitions_(partitions), model_(model), options_(options),
        watch_(watch), random_(options.seed) {
    program_ = options.log.empty() ? 0 : program_hash(*start.program);
    for (auto& [key, variants] : search.variants(partitions)) {
      Slot& slot = slots_[key];
      for (auto v = variants.rbegin(); v != variants.rend(); ++v) slot.open.emplace_back(*v);
      for (const Variant& v : variants) slot.known.insert(v.kernel->hash);
    }
    for (const Plan& seed : options.seeds) add_seed(seed);
    for (const Partition& p : partitions_) {
      std::vector<Slot*>& slots = slots_of_.emplace_back();
      for (const auto& kernel : p.plan.kernels) slots.push_back(&slots_.at(search_.key_of(p.plan, *kernel)));
    }
  }

  Measured run() {
    while (!watch_.over()) {
      while (ahead_.size() < (options_.prepare ? kAhead : 1)) {
        Slot* slot = next_slot();
        if (!slot) break;
        choose(*slot);
      }
      if (ahead_.empty()) break;
      prepare();
      const Chosen chosen = std::move(ahead_.front());
      ahead_.pop_front();
      try_out(chosen);
    }
    return finish();
  }

private:
  /// Queues the kernels of a plan from elsewhere as the first to be measured. If one of them computes stages
  /// that no partition's kernel does, the plan becomes one more partition.
  void add_seed(const Plan& seed) {
    bool is_new = false;
    if (options_.trace) {
      options_.trace->starts_at(seed, model_.seconds(seed));
      for (size_t k = 0; k < seed.kernels.size(); ++k)
        options_.trace->schedules(seed, k, model_.seconds(seed.kernels[k]));
    }
    for (const auto& kernel : seed.kernels) {
      const auto [at, added] = slots_.try_emplace(search_.key_of(seed, *kernel));
      is_new |= added;
      Slot& slot = at->second;
      const bool is_known = !slot.known.insert(kernel->hash).second;
      if (is_known)
        std::erase_if(slot.open, [&](const Candidate& c) { return c.variant.kernel->hash == kernel->hash; });
      ahead_.push_back({&slot, Candidate({kernel, search_.moves_of(seed, *kernel), model_.seconds(kernel)})});
    }
    if (is_new) partitions_.push_back({seed, model_.seconds(seed), 0});
  }

  Slot* next_slot() {
    // First every kernel of the most promising partition, then those of the others, so that a whole plan is
    // measured as early as possible.
    for (const auto& slots : slots_of_)
      for (Slot* slot : slots)
        if (!slot->best && !slot->open.empty()) return slot;
    return most_promising();
  }

  /// Whether candidates are open. If all are measured, first adds the neighbours of the next best one.
  bool has_open(Slot& slot) {
    while (slot.open.empty() && !slot.unexpanded.empty() &&
           slot.unexpanded.begin()->first < kNearBest * slot.best_seconds) {
      const Variant from = std::move(slot.unexpanded.begin()->second);
      slot.unexpanded.erase(slot.unexpanded.begin());
      add_neighbours(slot, from);
    }
    return !slot.open.empty();
  }

  /// The kernel that takes most time and is still likely to improve.
  Slot* most_promising() {
    Slot* best = nullptr;
    double most = 0;
    weigh();
    for (auto& [key, slot] : slots_) {
      if (!slot.best || slot.since_better >= kPatience || !has_open(slot)) continue;
      const double weight = slot.best_seconds * slot.weight / (4.0 + static_cast<double>(slot.since_better));
      if (!best || weight > most) {
        best = &slot;
        most = weight;
      }
    }
    return best;
  }

  /// Sets each kernel's weight by the best partition that launches it. The kernels of a slower partition have
  /// more seconds to save, but are of no use before they save them.
  void weigh() {
    double least = 0;
    for (const auto& slots : slots_of_)
      if (const double s = seconds_of(slots); s > 0 && (least == 0 || s < least)) least = s;
    for (auto& [key, slot] : slots_) slot.weight = 0;
    for (size_t i = 0; i < slots_of_.size(); ++i) {
      const double seconds = seconds_of(slots_of_[i]);
      const double behind = seconds > 0 ? seconds / least : 1;
      const double weight = (i == 0 || seconds == least ? 1 : kAside) / (behind * behind);
      for (Slot* slot : slots_of_[i]) slot->weight = std::max(slot->weight, weight);
    }
  }

  /// Queues a candidate before those ahead of it are measured, so that it compiles meanwhile.
  void choose(Slot& slot) {
    size_t pick = 0;
    if (++slot.tried % kSurprises == 0) {
      const auto plausible =
          std::partition_point(slot.open.begin(), slot.open.end(), [&](const Candidate& c) {
            return c.variant.predicted > kPlausible * slot.open.back().variant.predicted;
          });
      pick = slot.open.size() - 1 - random_() % static_cast<size_t>(slot.open.end() - plausible);
    } else {
      double least = 0;
      for (size_t i = slot.open.size(); i-- > 0;) {
        const Candidate& c = slot.open[i];
        const double expected = c.variant.predicted * slot.families.factor(c.family);
        if (least > 0 && expected >= least) continue;
        least = expected;
        pick = i;
      }
    }
    ahead_.push_back({&slot, std::move(slot.open[pick])});
    slot.open.erase(slot.open.begin() + static_cast<long>(pick));
  }

  void prepare() {
    if (!options_.prepare) return;
    for (size_t i = 0; i < std::min(kAhead, ahead_.size()); ++i) {
      const KernelPlanRef& kernel = ahead_[i].candidate.variant.kernel;
      if (!ahead_[i].prepared && !known_result(*ahead_[i].slot, kernel->hash)) options_.prepare(kernel);
      ahead_[i].prepared = true;
    }
  }

  void try_out(const Chosen& chosen) {
    Slot& slot = *chosen.slot;
    const Variant& variant = chosen.candidate.variant;
    const double limit = slot.best ? 4 * slot.best_seconds + 1e-3 : first_limit(variant);
    const Measurement result = measure(slot, variant, limit);
    if (result.ok && result.seconds > 0) {
      slot.families.add(chosen.candidate.family, result.seconds / variant.predicted);
      const auto [at, is_new] = slot.best_of.try_emplace(chosen.candidate.family, result.seconds, variant);
      if (!is_new && result.seconds < at->second.first) at->second = {result.seconds, variant};
    }
    if (result.ok && !slot.first) slot.first = variant;
    if (result.ok) add_finalist(slot.fastest, result.seconds, variant);
    if (result.ok && (!slot.best || result.seconds < slot.best_seconds)) {
      if (!slot.best || result.seconds < 0.99 * slot.best_seconds) slot.since_better = 0;
      slot.best = variant;
      slot.best_seconds = result.seconds;
      add_neighbours(slot, variant);
    } else if (result.ok && result.seconds < kNearBest * slot.best_seconds) {
      slot.unexpanded.emplace(result.seconds, variant);
    }
    report();
  }

  static void add_finalist(std::vector<std::pair<double, Variant>>& fastest, double seconds,
                           const Variant& variant) {
    const auto at = std::upper_bound(fastest.begin(), fastest.end(), seconds,
                                     [](double s, const auto& other) { return s < other.first; });
    fastest.emplace(at, seconds, variant);
    if (fastest.size() > kFinalists) fastest.pop_back();
  }

  /// Time limit, in seconds, of a kernel of which only the prediction is known.
  static double first_limit(const Variant& variant) {
    return std::clamp(kFirstLimit * variant.predicted, kFirstLimitLeast, kFirstLimitMost);
  }

  Measurement measure(Slot& slot, const Variant& variant, double limit) {
    const uint64_t hash = variant.kernel->hash;
    if (const std::optional<Measurement> known = known_result(slot, hash)) {
      recalled_ += !results_.contains(hash);
      return *known;
    }
    const Measurement result =
        options_.measure(variant.kernel, std::min(limit, std::max(watch_.left(), 0.1)));
    if (!result.lasting) throw Error(ErrorKind::Device, result.error);
    if (const std::optional<Measurement> before = earlier(hash); before && before->ok && result.ok)
      slot.drift = result.seconds / before->seconds;
    ++slot.since_better;
    ++measured_;
    if (!result.ok) {
      --measured_;
      ++rejected_;
      ++rejections_[reason_of(result)];
    }
    results_.emplace(hash, result);
    if (options_.note) options_.note(*variant.kernel, result);
    if (options_.trace) options_.trace->measured(*variant.kernel, variant.predicted, result);
    if (!options_.log.empty()) {
      LogRecord record{LogRecord::Kind::Candidate,
                       program_,
                       hash,
                       options_.where,
                       model_.target().device,
                       variant.kernel->moves,
                       variant.predicted,
                       result.ok ? result.seconds : 0,
                       result.ok ? "" : result.error,
                       {},
                       {}};
      append_log(options_.log, record);
    }
    return result;
  }

  /// The result of a kernel that needs no measuring. An earlier search's times come from another moment and
  /// perhaps from another version's code: they rule a kernel out, but don't make it the best.
  std::optional<Measurement> known_result(const Slot& slot, uint64_t hash) const {
    if (auto it = results_.find(hash); it != results_.end()) return it->second;
    std::optional<Measurement> before = earlier(hash);
    if (!before || !before->ok) return before;
    before->seconds *= slot.drift;
    return slot.best && before->seconds >= slot.best_seconds ? before : std::nullopt;
  }
  std::optional<Measurement> earlier(uint64_t hash) const {
    return options_.recall ? options_.recall(hash) : std::nullopt;
  }

  void add_neighbours(Slot& slot, const Variant& of) {
    Plan small = start_;
    small.kernels.assign(1, of.kernel);
    // Kernels that read this one's results keep its buffers visible.
    for (const Partition& p : partitions_)
      for (const auto& k : p.plan.kernels)
        if (k->stages == of.kernel->stages) {
          small.kernels.clear();
          small.kernels.push_back(of.kernel);
          for (const auto& other : p.plan.kernels)
            if (other != k) small.kernels.push_back(other);
        }
    for (Schedule& s : search_.kernels().neighbours(small, 0, {of.kernel, of.moves, of.predicted})) {
      if (!slot.known.insert(s.kernel->hash).second) continue;
      Candidate made({s.kernel, std::move(s.moves), s.seconds});
      const auto at = std::upper_bound(
          slot.open.begin(), slot.open.end(), made,
          [](const Candidate& a, const Candidate& b) { return a.variant.predicted > b.variant.predicted; });
      slot.open.insert(at, std::move(made));
    }
  }

  void report() const {
    if (!options_.progress) return;
    TuneProgress p;
    p.round = static_cast<int>(measured_ + rejected_);
    p.proposed = search_.proposed();
    p.measured = measured_;
    p.rejected = rejected_ + search_.rejected();
    for (const auto& slots : slots_of_) {
      const double seconds = seconds_of(slots);
      if (seconds > 0 && (p.best_seconds == 0 || seconds < p.best_seconds)) p.best_seconds = seconds;
    }
    p.recalled = recalled_;
    p.scored_per_second = search_.kernels().scored_per_second();
    p.reasons = rejections_;
    if (search_.rejected()) p.reasons["not legal"] += search_.rejected();
    p.elapsed_seconds = watch_.elapsed();
    p.budget_seconds = options_.budget_seconds;
    options_.progress(p);
  }

  /// Sum of the kernels' best measured times; 0 if a kernel has none.
  static double seconds_of(const std::vector<Slot*>& kernels) {
    double sum = 0;
    for (const Slot* slot : kernels) {
      if (!slot->best) return 0;
      sum += slot->best_seconds;
    }
    return sum;
  }

  Choices choices_of(size_t partition) const {
    Choices choices{start_, {}, {}};
    for (const Move& m : search_.moves_since_start(partitions_[partition].plan))
      if (m.kind == MoveKind::Inline) choices.inlining.push_back(m);
    for (const Slot* slot : slots_of_[partition]) {
      Choices::OfKernel of{slot->best->kernel->stages, {slot->best->moves}};
      const bool is_other = slot->first->kernel != slot->best->kernel;
      if (is_other) of.schedules.push_back(slot->first->moves);
      std::vector<const std::pair<double, Variant>*> others;
      for (const auto& [family, measured] : slot->best_of)
        if (measured.first < kChoice * slot->best_seconds && measured.second.kernel != slot->best->kernel &&
            measured.second.kernel != slot->first->kernel)
          others.push_back(&measured);
      std::sort(others.begin(), others.end(), [](const auto* a, const auto* b) {
        return std::pair(a->first, a->second.kernel->hash) < std::pair(b->first, b->second.kernel->hash);
      });
      for (const auto* other : others)
        if (of.schedules.size() < kChoices) of.schedules.push_back(other->second.moves);
      for (const auto& [seconds, finalist] : slot->fastest)
        if (seconds < kNearBest * slot->best_seconds && !std::ranges::count(of.schedules, finalist.moves))
          of.schedules.push_back(finalist.moves);
      choices.kernels.push_back(std::move(of));
    }
    return choices;
  }

  Measured finish() {
    Measured out;
    out.measured = measured_;
    out.rejected = rejected_;
    out.rejections = rejections_;
    std::vector<std::pair<double, size_t>> ranked;
    for (size_t i = 0; i < partitions_.size(); ++i)
      if (const double s = seconds_of(slots_of_[i]); s > 0) ranked.emplace_back(s, i);
    std::sort(ranked.begin(), ranked.end());
    for (const auto& [seconds, partition] : ranked) {
      if (out.seconds > 0 && (seconds > kRival * out.seconds || out.rivals.size() == kRivals)) break;
      Choices choices = choices_of(partition);
      auto plan = choices.plan(std::vector<size_t>(choices.kernels.size(), 0), model_.target());
      if (!plan) continue;
      if (out.seconds > 0) {
        out.rivals.push_back(std::move(*plan));
        continue;
      }
      out.plan = std::move(*plan);
      out.choices = std::move(choices);
      out.seconds = seconds;
    }
    if (out.seconds == 0) out.plan = search_.schedule(partitions_.front());
    return out;
  }

  JointSearch& search_;
  const Plan& start_;
  std::vector<Partition> partitions_;
  CostModel& model_;
  const SearchOptions& options_;
  const Watch& watch_;
  std::mt19937_64 random_;
  uint64_t program_ = 0;
  std::map<VariantKey, Slot> slots_;
  std::vector<std::vector<Slot*>> slots_of_; // by partition: the slots of its kernels
  std::deque<Chosen> ahead_;
  std::unordered_map<uint64_t, Measurement> results_;
  int64_t measured_ = 0, rejected_ = 0, recalled_ = 0;
  Rejections rejections_;
};

} // namespace

std::string reason_of(const Measurement& rejected) {
  for (const char* reason : {"wrong result", "too slow", "crashed", "never ends", "never compiles"})
    if (rejected.error.starts_with(reason)) return reason;
  return "does not compile or run";
}

Measured measure_variants(JointSearch& search, const Plan& start, const std::vector<Partition>& partitions,
                          CostModel& model, const SearchOptions& options, const Watch& watch) {
  return Measurer(search, start, partitions, model, options, watch).run();
}

} // namespace lathe::search
