// The tuning log: one JSON object a line, appended as candidates are measured; exported, merged (by
// concatenation) and replayed.
//
//   {"kind": "candidate", "program": "9f...", "kernel": "03...", "fingerprint": "...", "device": "cpu",
//    "moves": ["split(t3.i0, 6)"], "predicted": 1e-5, "measured": 1.2e-5}         a kernel that was measured
//   {"kind": "candidate", ..., "measured": 0, "error": "wrong result"}              one that was rejected
//   {"kind": "plan", ..., "rejected": {"not legal": 812, "wrong result": 1}}   the best plan of a program,
//                                                                              with its rejections by reason
//
// Reading keeps every valid line and reports the damaged ones by number. Appending is one write per line, so
// that several threads and processes may share a file.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "lathe/error.hpp"
#include "search/moves/move.hpp"

namespace lathe::search {

struct LogRecord {
  enum class Kind { Candidate, Plan };
  Kind kind = Kind::Candidate;
  uint64_t program = 0; // program_hash
  uint64_t kernel = 0;  // structural hash of the scheduled kernel; 0 for a plan
  std::string fingerprint, device;
  std::vector<Move> moves;
  double predicted = 0, measured = 0; // seconds; measured is 0 if it was rejected or not timed
  std::string error;                  // why it was rejected
  std::string label{};                // for people
  std::map<std::string, int64_t> rejected{}; // of a plan: numbers of rejected candidates, by reason
};

std::string to_json_line(const LogRecord& record);
/// Throws Error(Syntax) that says what is wrong with the line.
LogRecord parse_log_line(const std::string& line);

struct LogDamage {
  int line;    // from 1
  Error error; // Error(Syntax), "FILE:LINE: ..."
};
struct LogContents {
  std::vector<LogRecord> records;
  std::vector<LogDamage> damaged;
};
/// Throws Error(File) if the file can't be read.
LogContents read_log(const std::string& path);
/// Throws Error(File) if the file can't be written.
void append_log(const std::string& path, const LogRecord& record);
/// The fastest plan of a program: by measured seconds where there are any, else by predicted.
std::optional<LogRecord> best_plan(const std::vector<LogRecord>& records, uint64_t program);

} // namespace lathe::search
