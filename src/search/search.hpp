// Search: suggesters propose moves, the cost model ranks plans, the beam keeps the best and measures a few.
#pragma once
#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "lathe/executable.hpp"
#include "search/choices.hpp"
#include "search/move.hpp"
#include "search/profile.hpp"

namespace lathe::search {

struct Features;

/// A term of the cost: seconds and what it is.
struct CostTerm {
  std::string name;
  double seconds;
};
struct Cost {
  double seconds = 0;
  std::vector<CostTerm> terms;
};
Cost cost(const KernelPlan& kernel, const Target& target, const MachineProfile& machine);
/// No schedule of the kernel takes less: its arithmetic at the machine's peak, its parameters moved once.
double lower_bound(const ast::Kernel& kernel, const Target& target, const MachineProfile& machine);

/// Sum over kernels, memoised by structural hash.
class CostModel {
public:
  CostModel(Target target, MachineProfile machine);
  ~CostModel();
  double seconds(const KernelPlanRef& kernel);
  double seconds(const Plan& plan);
  const Target& target() const;
  const MachineProfile& machine() const;

private:
  struct State;
  std::unique_ptr<State> state_;
};

/// A proposal is a few moves that belong together (a macro-move), applied all or none.
struct Proposal {
  std::vector<Move> moves;
  std::string why;
};
/// What a suggester looks at: one kernel of a plan, and what it is made for.
struct SuggestContext {
  const Plan& plan;
  const KernelPlan& kernel;
  const Features& features; // of `kernel`
  const Target& target;
  const MachineProfile& machine;
  bool thorough = false; // tuning: more parameters than an untuned compile has time for
};
/// Proposes; never applies, scores or prunes. Reads the structure of the loops, never names of workloads.
using Suggester = std::vector<Proposal> (*)(const SuggestContext& context);
struct NamedSuggester {
  const char* name;
  Suggester suggest;
  bool graph; // changes which kernels there are, not only the loops of one
};
const std::vector<NamedSuggester>& suggesters();

/// Compiles and times one kernel of a plan, and checks its outputs against the unscheduled kernel's. Given by
/// compile/.
struct Measurement {
  bool ok = false;
  double seconds = 0;
  std::string error; // why rejected: does not compile, wrong result, too slow
  /// False: nothing can be measured here, whatever the kernel. The search ends with an error.
  bool lasting = true;
};
/// The reason for a rejected candidate in a few words, for counting: "wrong result", "too slow", "crashed"
/// ...
std::string reason_of(const Measurement& rejected);
using Rejections = std::map<std::string, int64_t>;

/// What scheduled kernels are checked against, quicker than unscheduled() is: the same sums in the same
/// order, but with the loop along which results are contiguous innermost.
KernelPlanRef reference_kernel(const lower::Program& program, const KernelPlan& scheduled,
                               const Target& target);
using Measure = std::function<Measurement(const KernelPlanRef& kernel, double time_limit_seconds)>;
/// Told of kernels that will be measured soon: they may be compiled while another one is measured.
using Prepare = std::function<void(const KernelPlanRef& kernel)>;

struct SearchOptions {
  int beam = 4; // wider ones also try more parameters of each move
  int rounds = 12;
  double budget_seconds = 0; // 0: no clock, stop when a round brings nothing
  uint64_t seed = 1;
  Measure measure; // null: rank by the model alone
  Prepare prepare; // may be null
  /// What an earlier search measured of this kernel, if it did: it is measured again only if it would be the
  /// best. And where new results go. Both may be null.
  std::function<std::optional<Measurement>(uint64_t kernel_hash)> recall;
  std::function<void(const KernelPlan& kernel, const Measurement& result)> note;
  std::vector<Plan> seeds; // plans of the same program to begin with: none is trusted, each is measured
  const std::atomic<bool>* stop = nullptr; // once true: end with the best so far
  std::string where;                       // machine, device and its use, for the log
  /// Axes that nothing tells apart become one, of whole programs: a part's neighbours may tell them apart.
  bool joins = true;
  bool graph_then_loops = false; // staged instead of joint: for comparison only
  std::string log;
  std::function<void(const TuneProgress&)> progress;
};
struct SearchResult {
  Plan plan;
  double predicted_seconds = 0;
  double measured_seconds = 0; // 0 if nothing was measured
  std::vector<Plan> rivals;    // of other kernels or another form, measured at other moments: only whole
                               // programs tell them apart
  Choices choices;             // of the plan's kernels; none if they were not measured
  int64_t proposed = 0, measured = 0, rejected = 0;
  Rejections rejections;
};
SearchResult search(const Plan& start, CostModel& model, const SearchOptions& options);

/// What was learnt by measuring: the best known moves of each program, and every candidate that was measured.
/// Keyed by the structural hash of the program and `where`: the machine with its device and its use. Several
/// processes may use one file at once. Throws Error(File) if it can't be read or written.
class Database {
public:
  /// Opens or creates; a damaged file is set aside as FILE.damaged, reported by damaged(), and rebuilt.
  explicit Database(const std::string& path = default_path());
  ~Database();
  static std::string default_path(); // $LATHE_CACHE_DIR or ~/.cache/lathe, "tuning.db"
  struct Entry {
    std::vector<Move> moves;
    double seconds;
  };
  std::optional<Entry> find(uint64_t program, const std::string& where);
  /// Keeps the faster one; but an entry of `beaten` seconds always goes: it has lost to the new one in turns,
  /// and times of different moments tell less. `label` is for people.
  void store(uint64_t program, const std::string& where, const Entry& entry, const std::string& label = "",
             std::optional<double> beaten = {});
  /// What is known of the program elsewhere, on other machines or in other uses: a place to start from.
  std::vector<Entry> elsewhere(uint64_t program, const std::string& where);

  struct Row {
    uint64_t program;
    std::string where, label;
    std::vector<Move> moves;
    double seconds;
    int64_t made; // seconds since 1970
  };
  std::vector<Row> rows();

  struct Candidate {
    uint64_t kernel; // structural hash
    double seconds;  // 0 if it was rejected
    std::string error;
    std::string text; // the kernel as print() gives it
  };
  void store_candidates(uint64_t program, const std::string& where, const std::vector<Candidate>& candidates);
  std::vector<Candidate> candidates(uint64_t program, const std::string& where);
  int64_t candidate_count();

  /// Removes the schedules and candidates of every `where` that doesn't begin with this, and those made
  /// before a time (seconds since 1970; 0: whenever). The number of schedules and of candidates that went.
  std::pair<int64_t, int64_t> prune(const std::string& keep_prefix, int64_t made_before);
  const std::string& damaged() const;

private:
  struct State;
  std::unique_ptr<State> state_;
};
/// Structural hash of a program's stages with their connections: the key of the database.
uint64_t program_hash(const lower::Program& program);

} // namespace lathe::search
