// Search: suggesters propose moves, the cost model ranks plans, the beam keeps the best and measures a few.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "lathe/executable.hpp"
#include "search/move.hpp"

namespace lathe::search {

struct Features;

/// What `lathe-bench machine` measures, once per machine; defaults are typical of a recent x86 server.
struct MachineProfile {
  double flops_per_second[3] = {45e9, 96e9, 179e9}; // f32 FMA on one core with 128, 256, 512-bit vectors
  struct Level {
    int64_t bytes;
    double read_bytes_per_second;
  }; // innermost first; the last is main memory
  std::vector<Level> levels{{48 << 10, 360e9}, {2 << 20, 141e9}, {32 << 20, 30e9}, {int64_t{1} << 40, 16e9}};
  double write_bytes_per_second = 12e9; // of ordinary stores to main memory, one core
  double streaming_write_bytes_per_second = 20e9;
  double launch_seconds = 0.2e-6, fork_seconds = 1.0e-6, barrier_seconds = 0.2e-6;
  int cores = 1;
  std::string fingerprint; // CPU model, features, caches, lathe version
};
/// Measured and stored for this machine, else the defaults with this machine's cache sizes. Read once a
/// process.
MachineProfile machine_profile();
/// The defaults with this machine's cache sizes, cores and fingerprint.
MachineProfile default_machine_profile();
/// Where it is stored: machine.json beside the database. A damaged file counts as none.
std::string machine_profile_path();
/// For later processes. Throws Error(File) if it can't be written.
void store_machine_profile(const MachineProfile& profile);
/// CPU model, features, caches, cores and lathe's version, as text.
std::string machine_fingerprint();

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
};
/// What scheduled kernels are checked against, quicker than unscheduled() is: the same sums in the same order, but with the
/// loop along which results are contiguous innermost.
KernelPlanRef reference_kernel(const lower::Program& program, const KernelPlan& scheduled, const Target& target);
using Measure = std::function<Measurement(const KernelPlanRef& kernel, double time_limit_seconds)>;

struct SearchOptions {
  int beam = 4; // wider ones also try more parameters of each move
  int rounds = 12;
  double budget_seconds = 0; // 0: no clock, stop when a round brings nothing
  uint64_t seed = 1;
  Measure measure;               // null: rank by the model alone
  bool graph_then_loops = false; // staged instead of joint: for comparison only
  std::string log;
  std::function<void(const TuneProgress&)> progress;
};
struct SearchResult {
  Plan plan;
  double predicted_seconds = 0;
  double measured_seconds = 0; // 0 if nothing was measured
  int64_t proposed = 0, measured = 0, rejected = 0;
};
SearchResult search(const Plan& start, CostModel& model, const SearchOptions& options);

/// Best known moves per kernel program, keyed by the structural hash of its unscheduled kernels and the
/// machine.
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
  std::optional<Entry> find(uint64_t program_hash, const std::string& fingerprint);
  void store(uint64_t program_hash, const std::string& fingerprint,
             const Entry& entry); // keeps the faster one
  const std::string& damaged() const;

private:
  struct State;
  std::unique_ptr<State> state_;
};
/// Structural hash of a program's stages with their connections: the key of the database.
uint64_t program_hash(const lower::Program& program);

} // namespace lathe::search
