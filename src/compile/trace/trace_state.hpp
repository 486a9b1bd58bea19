// What the records of one compilation share: the file, the clock, and the numbers of nodes, programs and
// states.
#pragma once
#include <atomic>
#include <chrono>
#include <functional>
#include <memory_resource>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>
#include <unordered_map>

#include "compile/trace/json_line.hpp"
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
/// A record's text without the brackets around it.
std::string fields_text(const Json& record);

struct MoveBytesHash {
  using is_transparent = void;
  size_t operator()(std::string_view bytes) const { return std::hash<std::string_view>()(bytes); }
};

struct Trace::State {
  /// A state of a search.
  struct Known {
    int64_t id = 0;
    int64_t waiting = -1; // position in `waiting` of a kernel that the file does not have; -1: it has it
  };
  /// A kernel that will be written once it matters. Its parent is in the file.
  struct Waiting {
    int64_t parent;
    double seconds;
    uint64_t hash;
    std::string moves; // from the parent, as put_moves() puts them
  };
  struct Search {
    int64_t id;
    uint64_t program; // its hash
  };

  TraceFile file;
  std::string compilation;
  Clock::time_point began = Clock::now();

  // Graphs.
  std::unordered_map<const graph::Node*, int64_t> nodes;
  std::vector<graph::NodeRef> kept; // so that no address is used again
  std::set<int64_t> live;
  std::vector<std::pair<std::string, graph::NodeRef>> named;

  // Searches.
  std::unordered_map<uint64_t, int64_t> programs; // by program_hash
  std::vector<Search> open;                       // those that run, the inner ones last
  int64_t searches = 0, states = 0;
  // Between the pieces of memory that a search takes and gives back, a node for each state would cost it
  // time.
  std::pmr::monotonic_buffer_resource room;
  std::pmr::unordered_map<uint64_t, Known> plans{&room}, kernels{&room}; // by program and hash
  std::vector<Waiting> waiting;
  int64_t siblings = 0, refusals = 0; // written so far
  /// JSON of moves by their bytes: the proposals of a kernel repeat each other's moves.
  std::unordered_map<std::string, std::string, MoveBytesHash, std::equal_to<>> move_texts;

  std::atomic<int> runs = 0;
  std::string line_text; // of the record that line() began

  explicit State(const std::string& path) : file(path) {}
  double now() const { return std::chrono::duration<double>(Clock::now() - began).count(); }
  /// Begins a record of this kind with the compilation and the time.
  Json record(const char* kind) const;
  void write(const Json& record);
  /// Begins a record as record() does, in memory of which there is one; write_line() ends it.
  JsonLine line(const char* kind, double now);
  void write_line(JsonLine& line);

  /// A move as a JSON string.
  std::string_view text_of(std::string_view move);

  /// The node's number; adds its definition to `defined` if the file has none yet.
  int64_t node(const graph::NodeRef& node, Json& defined);
  /// The program's number; writes its record if the file does not have it.
  int64_t program(uint64_t hash, std::string_view fields, double now);
};

} // namespace lathe::tracing
