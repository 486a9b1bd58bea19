// Traces: what compile() did, from the graph to machine code, and what the program's runs took. docs/trace.md describes the file.
//
//   compile({{"y", x.matmul(w)}}, {.tune = TuneOptions{}, .trace = "y.trace"});
//   std::cout << print_trace("y.trace", {.picture = "search"});
//   write_trace_page({"y.trace"}, "y.html");
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace lathe {

struct TraceFault {
  int64_t line;         ///< from 1
  std::string message;  ///< "FILE:LINE: ..."
};

/// What is whole in a trace, and what is not.
struct TraceCheck {
  std::map<std::string, int64_t> records{};  ///< by kind
  int64_t replayed = 0;                      ///< states that their moves rebuild, with the structural hash that they claim
  bool cut = false;                          ///< the last line has no end: the writer was stopped
  std::vector<TraceFault> faults{};
};

/// Reads a whole trace, and replays the moves of at most `states` of its states. Error(File) if there is no such file.
TraceCheck check_trace(const std::string& path, int64_t states = 1000);

struct TracePrint {
  std::string picture = "graph";  ///< graph, rewrites, search, kernel, timeline or arena
  std::string kernel{};           ///< of picture kernel: its name
  int64_t compilation = -1;       ///< which of the file's, from 0; -1: the last
};
/// A picture of the viewer as text, of what is whole in the file. Error(File) if that is nothing, Error(Name) for an unknown picture,
/// kernel or compilation.
std::string print_trace(const std::string& path, const TracePrint& what = {});

/// Writes the viewer with one trace, or two to compare, as an HTML file that needs nothing else. Errors as print_trace; Error(File)
/// if the page can't be written.
void write_trace_page(const std::vector<std::string>& traces, const std::string& page);

}  // namespace lathe
