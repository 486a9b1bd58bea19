// The outer beam, over partitions of the program into kernels. A partition costs what its kernels cost with
// the best schedules that the inner search finds for them. So a fusion is judged by the loops that it allows,
// not by the loops that it starts with.
#pragma once
#include <map>
#include <unordered_map>
#include <vector>

#include "search/beam/fusions.hpp"
#include "search/beam/kernel_search.hpp"
#include "search/beam/search.hpp"
#include "search/beam/watch.hpp"
#include "search/cost/cost.hpp"
#include "search/suggest/suggest.hpp"

namespace lathe::search {

/// A schedule of a kernel of some partition, as moves that don't depend on the other kernels' schedules.
struct Variant {
  KernelPlanRef kernel;
  std::vector<Move> moves; // all moves of this kernel since the start, except the inlining
  double predicted = 0;
};
/// Hash of a plan's inlined stages, and a kernel's stages. Kernels with equal keys share variants.
using VariantKey = std::pair<uint64_t, std::vector<int>>;

struct Partition {
  Plan plan;             // after the graph moves
  double seconds = 0;    // predicted, with the best schedules
  uint64_t identity = 0; // which stages are computed together, and which are inlined
};

/// No schedules of the plan's kernels take less time together.
double least_seconds(const Plan& plan, const CostModel& model);

class JointSearch {
public:
  JointSearch(const Plan& start, CostModel& model, const SearchOptions& options, const Watch& watch);

  /// The best partitions, best first.
  std::vector<Partition> run();
  /// The partitions where run() starts, best first.
  std::vector<Partition> seeds();
  /// The partition's plan with the best schedule of each kernel applied.
  Plan schedule(const Partition& partition);
  /// The partition that graph moves alone lead to, ranked by bytes moved and kernels launched, without
  /// schedules: the first step of the staged search.
  Partition graph_only();

  std::vector<Move> moves_since_start(const Plan& plan) const;
  /// The moves since the start that belong to one kernel, except the inlining.
  std::vector<Move> moves_of(const Plan& plan, const KernelPlan& kernel) const;
  VariantKey key_of(const Plan& plan, const KernelPlan& kernel) const;
  /// The variants of each kernel of the partitions, best predicted first.
  std::map<VariantKey, std::vector<Variant>> variants(const std::vector<Partition>& partitions);

  /// What was tried to make fewer kernels of those of the plan that was found.
  std::shared_ptr<const std::vector<TriedFusion>> fusions_of(const Plan& found) const;

  KernelSearch& kernels() { return kernels_; }
  int64_t proposed() const { return proposed_ + kernels_.proposed(); }
  int64_t rejected() const { return rejected_ + kernels_.rejected(); }

private:
  struct Step {
    std::vector<Move> moves;
    Plan plan;
    std::vector<size_t> replaced; // kernels of the plan before
    double apart = 0;             // seconds of these
    double raw = 0, seconds = 0;
    uint64_t identity = 0;
    std::vector<int> touched; // stages of the kernels that the step changes
  };
  std::vector<Step> steps_from(const Partition& from);
  void schedule_new_kernels(const Partition& from, std::vector<Step>& steps);
  std::vector<Proposal> proposals_for(const Plan& plan, size_t k) const;
  Partition combined(const Partition& from, const std::vector<Step>& steps);
  double seconds_of(const Plan& plan);
  uint64_t identity_of(const Plan& plan) const;
  uint64_t neighbourhood(const Plan& plan, size_t k) const;
  double bound(const KernelPlanRef& kernel);
  void remember(const Plan& plan, size_t k);

  Plan start_;
  CostModel& model_;
  const SearchOptions& options_;
  const Watch& watch_;
  bool thorough_;
  size_t width_; // of the beam
  KernelSearch kernels_;
  FusionLog fusions_;
  int64_t proposed_ = 0, rejected_ = 0;
  std::unordered_map<uint64_t, std::vector<size_t>>
      promising_; // by neighbourhood: positions of the proposals that were kept
  std::unordered_map<uint64_t, double> bounds_;
  std::map<VariantKey, std::vector<Variant>> pool_;
};

} // namespace lathe::search
