// A file that whole lines are appended to. Several threads may write, and several processes: each write to
// the file ends with a line.
#pragma once
#include <mutex>
#include <string>
#include <string_view>

namespace lathe::tracing {

class TraceFile {
public:
  /// Error(File) naming it if it can't be appended to.
  explicit TraceFile(std::string path);
  ~TraceFile(); // writes what is left; a fault then goes unreported
  TraceFile(const TraceFile&) = delete;
  TraceFile& operator=(const TraceFile&) = delete;

  /// Adds a line, given without its end. Never throws: a fault stops the writing.
  void add(std::string_view line);
  /// Writes what was added. Error(File) if that, or an earlier line, can't be written.
  void flush();

private:
  void write_out(); // the caller holds mutex_

  std::string path_;
  int file_ = -1;
  std::mutex mutex_;
  std::string waiting_;
  int fault_ = 0; // errno of the first write that failed; nothing is written after it
};

} // namespace lathe::tracing
