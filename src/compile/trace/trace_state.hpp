// What the records of one compilation share: the file, the clock, and the numbers of nodes, programs and
// states.
#pragma once
#include <atomic>
#include <chrono>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <unordered_map>

#include "compile/trace/trace.hpp"
#include "compile/trace/trace_file.hpp"

namespace lathe::tracing {

using Json = nlohmann::ordered_json;

/// 16 hexadecimal digits.
std::string hex(uint64_t value);
/// Five significant digits: no time is known better, and the text is short.
double rounded(double seconds);
Json texts_of(const Shape& shape);
Json texts_of(const std::vector<search::Move>& moves);
Json terms_of(const search::Cost& cost);

struct Trace::State {
  /// A state of a search, which the file may not have yet.
  struct Known {
    int64_t id = 0, parent = -1;
    bool is_written = true;
    std::vector<search::Move> moves{}; // the rest is kept until it is written
    double seconds = 0;
    uint64_t hash = 0;
  };
  struct Search {
    int64_t id;
    uint64_t program;
    search::Target target;
    search::MachineProfile machine;
  };

  TraceFile file;
  std::string compilation;
  std::chrono::steady_clock::time_point began = std::chrono::steady_clock::now();

  // Graphs.
  std::unordered_map<const graph::Node*, int64_t> nodes;
  std::vector<graph::NodeRef> kept; // so that no address is used again
  std::set<int64_t> live;
  std::vector<std::pair<std::string, graph::NodeRef>> named;

  // Searches.
  std::unordered_map<uint64_t, int64_t> programs; // by program_hash
  std::vector<Search> open;                       // those that run, the inner ones last
  int64_t searches = 0, states = 0;
  std::unordered_map<uint64_t, Known> plans, kernels; // by program and hash
  std::unordered_map<int64_t, uint64_t> kernel_of;    // keys of `kernels` that wait to be written
  int64_t siblings = 0, refusals = 0;                 // written so far

  std::atomic<int> runs = 0;

  explicit State(const std::string& path) : file(path) {}
  double now() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  }
  /// Begins a record of this kind with the compilation and the time.
  Json record(const char* kind) const;
  void write(const Json& record);

  /// The node's number; adds its definition to `defined` if the file has none yet.
  int64_t node(const graph::NodeRef& node, Json& defined);
  /// Writes the program if the file does not have it.
  int64_t program(const lower::Program& program, uint64_t hash, const search::Target& target);
  void write_with_parents(Known& known);
};

} // namespace lathe::tracing
