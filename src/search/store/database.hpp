// The database of tuned programs: what was measured, by program and machine.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lower/program.hpp"
#include "search/moves/move.hpp"

namespace lathe::search {

/// What was learnt by measuring: the best known moves of each program, and every candidate that was measured.
/// Keyed by the structural hash of the program and `where`: the machine with its device and its use. Several
/// processes may use one file at once. Reading is optional: what can't be read is as good as empty, and
/// fault() says why. Functions that write throw Error(File).
class Database {
public:
  /// Opens it if it is there; a damaged file is set aside as FILE.damaged, reported by damaged(), and
  /// rebuilt.
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
  const std::string& fault() const; ///< why the last reading found nothing; empty if it could read

private:
  struct State;
  std::unique_ptr<State> state_;
};
/// Structural hash of a program's stages with their connections: the key of the database.
uint64_t program_hash(const lower::Program& program);

} // namespace lathe::search
