// Which fusions a search tried and left: what explain() says of the border between two kernels.
//
// A search is told by plans of its own program, which may be a region or a form of the whole. Kernels are
// known by structural hash, so that what was tried there says something of equal kernels of the whole
// program. Texts are made anew in the names of the plan that is asked about.
//
//   FusionLog log;
//   options.fusions = &log;
//   const SearchResult found = search(start, model, options);
//   const std::vector<TriedFusion> borders = log.of(found.plan);
//
// Its functions may be called from several threads at once, and what it says does not depend on their order.
#pragma once
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "search/moves/plan.hpp"

namespace lathe::search {

/// A fusion of two kernels of a plan that its search tried.
struct TriedFusion {
  std::vector<int> reader, producer; // the stages that the two kernels compute
  std::string moves;                 // of the proposal
  bool legal = false;
  std::string reason{}; // if not: why
  double apart = 0,
         together = 0;   // if legal: predicted seconds of the kernels that it changes, before and after
  bool at_least = false; // `together` is what the new kernels need at least; their loops were not searched
  friend bool operator==(const TriedFusion&, const TriedFusion&) = default;
};

/// A fusion as a line of text, which begins with this word, and back. Error(Syntax).
constexpr std::string_view kFusionLine = "fusion\t";
std::string line_of(const TriedFusion& fusion);
TriedFusion parse_fusion(std::string_view line);

class FusionLog {
public:
  /// A proposal that makes new kernels of those of `from` at `replaced`.
  void made(const Plan& from, const std::vector<size_t>& replaced, const std::vector<Move>& moves,
            double apart, double together, bool at_least);
  /// A proposal for the kernel of `from` at `reader` that is not legal.
  void refused(const Plan& from, size_t reader, const std::vector<Move>& moves, const std::string& reason);
  /// A search ends: `found` has kernels of these partitions, with their loops scheduled. If the schedules of
  /// `found` may still change, `by_stages` lets its kernels be known without them.
  void ends(const std::vector<const Plan*>& partitions, const Plan& found, bool by_stages);

  /// Of each two kernels of the plan that a fusion was tried of: the best, or why none was legal. In the
  /// order of the readers.
  std::vector<TriedFusion> of(const Plan& plan) const;

private:
  /// The parameters and stages of a kernel. Those of kernels with equal hashes correspond.
  using Names = std::vector<BufferHandle>;
  struct Try {
    std::vector<Move> moves;
    bool legal;
    std::string reason;
    double apart, together;
    bool at_least;
    size_t kernels;         // that the proposal changes
    Names reader, producer; // in the program where it was tried
  };
  /// A kernel of a partition, and what a search made of it by moves of loops.
  struct Scheduled {
    uint64_t partition;  // hash
    Names before, after; // in one program; `after` is empty if the kernel is known by its stages alone
  };
  /// A kernel of the plan that is asked about.
  struct Side {
    const KernelPlan* kernel;
    Names names;
    std::vector<const Scheduled*> known;
  };

  void add(const Plan& from, const std::vector<size_t>& changed, const Try& tried);
  std::vector<const Scheduled*> scheduled(uint64_t program, const KernelPlan& kernel) const;
  std::optional<TriedFusion> border(const Side& reader, const Side& producer) const;
  static Names names_of(const Plan& plan, const KernelPlan& kernel);

  mutable std::mutex mutex_;
  std::unordered_map<uint64_t, Try> tried_; // by both kernels and the parameter that one reads of the other
  std::unordered_map<uint64_t, std::map<uint64_t, Scheduled>>
      scheduled_; // by the kernel's hash, or by its program and stages; then by the partition's kernel
};

} // namespace lathe::search
