// The database of tuned programs: measured schedules and candidates, by program and machine.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lower/program.hpp"
#include "search/moves/move.hpp"

namespace lathe::search {

/// The results of measuring: the best known moves of each program, and every candidate that was measured. The
/// key is the structural hash of the program and `where`: the machine with its device and its use. Several
/// processes may use one file at once. A file that can't be read counts as empty, and fault() says why.
/// Functions that write throw Error(File).
class Database {
public:
  /// Opens the file if it exists. A damaged file is set aside as FILE.damaged, reported by damaged(), and
  /// rebuilt.
  explicit Database(const std::string& path = default_path());
  ~Database();
  static std::string default_path(); // $LATHE_CACHE_DIR or ~/.cache/lathe, "tuning.db"
  struct Entry {
    std::vector<Move> moves;
    double seconds;
  };
  std::optional<Entry> find(uint64_t program, const std::string& where);
  /// Stores the entry unless the stored one is faster. A stored entry of `beaten` seconds is always replaced:
  /// it has lost to the new one in turns, and times of different moments tell less. `label` is for people.
  void store(uint64_t program, const std::string& where, const Entry& entry, const std::string& label = "",
             std::optional<double> beaten = {});
  /// The program's entries for other machines or other uses: places to start from.
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

  /// Removes the schedules and candidates of every `where` that doesn't begin with `keep_prefix`, and those
  /// older than `made_before` (seconds since 1970; 0: none). Returns the numbers removed.
  std::pair<int64_t, int64_t> prune(const std::string& keep_prefix, int64_t made_before);
  const std::string& damaged() const;
  const std::string& fault() const; ///< why the last read failed; empty if it succeeded

private:
  struct State;
  std::unique_ptr<State> state_;
};
/// Structural hash of a program's stages with their connections: the key of the database.
uint64_t program_hash(const lower::Program& program);

} // namespace lathe::search
