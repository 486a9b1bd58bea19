// The search: suggesters propose moves, the cost model ranks plans, the beam keeps the best and measures a
// few.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "lathe/executable.hpp"
#include "search/beam/choices.hpp"
#include "search/beam/fusions.hpp"
#include "search/beam/measurement.hpp"
#include "search/beam/search_trace.hpp"
#include "search/cost/cost.hpp"

namespace lathe::search {

struct SearchOptions {
  int beam = 4; // a wider beam also tries more parameters of each move
  int rounds = 12;
  double budget_seconds = 0; // 0: no limit; a search ends when a round brings nothing
  uint64_t seed = 1;
  Measure measure; // null: rank by the model alone
  Prepare prepare; // may be null
  /// `recall` returns what an earlier search measured of a kernel, if it did; the kernel is measured again
  /// only if it would be the best. `note` takes each new result. Both may be null.
  std::function<std::optional<Measurement>(uint64_t kernel_hash)> recall;
  std::function<void(const KernelPlan& kernel, const Measurement& result)> note;
  std::vector<Plan> seeds; // plans of the same program to start from; each is measured, none is trusted
  std::stop_token stop;    // once a stop is requested: end with the best so far
  std::stop_token abandon; // once a stop is requested: throw Error(Stopped)
  /// Only the partitions where the joint search starts, of the program in the form that it has. Not with
  /// `measure`.
  bool quick = false;
  std::string where; // machine, device and its use, for the log
  /// Join axes that nothing tells apart. Not for a part of a program, whose neighbours may tell them apart.
  bool joins = true;
  /// Compute no output again where it is read. For a part of a program: the rest reads its outputs, too.
  bool keep_outputs = false;
  /// Of a part of a program: the least time that the whole program can take. A kernel that can only be a
  /// small share of it is searched less. 0: the program's own.
  double whole_seconds = 0;
  // For comparison only.
  bool graph_then_loops = false;        // staged instead of joint
  std::optional<MoveKind> without = {}; // a move that no suggester may propose
  /// Whether these moves may decide which kernels there are; null: all may.
  std::function<bool(const Plan& plan, const std::vector<Move>& moves)> allowed;
  std::string log;
  SearchTrace* trace = nullptr; // told of every state; null: nobody is
  std::function<void(const TuneProgress&)> progress;
};
struct SearchResult {
  Plan plan;
  double predicted_seconds = 0;
  double measured_seconds = 0; // 0 if nothing was measured
  std::vector<Plan> rivals;    // plans with other kernels or of another form, timed at other moments: only
                               // whole programs tell which is faster
  Choices choices;             // measured schedules of the plan's kernels; empty if nothing was measured
  int64_t proposed = 0, measured = 0, rejected = 0;
  Rejections rejections;
  bool quick = false; // found by a quick search
  /// Fusions of the plan's kernels that were tried. Null: no search says.
  std::shared_ptr<const std::vector<TriedFusion>> fusions;
};
SearchResult search(const Plan& start, CostModel& model, const SearchOptions& options);

} // namespace lathe::search
