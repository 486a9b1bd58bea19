// A trace's file, read back: the compilations in it, with all that is whole, and the lines that are not.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "lathe/explain.hpp"
#include "lathe/trace.hpp"
#include "search/machine/target.hpp"

namespace lathe::view {

using Terms = std::vector<std::pair<std::string, double>>; // of a cost: names and seconds

struct NodeRecord {
  std::string op, dtype, attr;
  std::vector<std::string> shape;
  std::vector<int64_t> from; // node ids
};
struct GraphStep {
  std::string name;
  std::vector<int64_t> added, removed, outputs;
  size_t rewrites = 0; // of Compilation::rewrites, those before this step
};
struct RewriteRecord {
  std::string rule;
  int64_t before, after;
};

struct ProgramRecord {
  struct Data {
    uint64_t id;
    std::string dtype;
    std::vector<std::string> shape;
  };
  struct Stage {
    std::string name, kind;
    int64_t node; // line of the graph's text, -1 if it is none
    std::vector<int> reads;
    bool is_output;
  };
  std::string graph; // text that graph::parse reads
  std::vector<std::string> outputs;
  std::vector<Data> data;
  std::vector<Stage> stages;
  search::Target target;
  std::vector<std::pair<int64_t, std::string>> origins; // nodes by line, and what the user calls them
};

struct SearchRecord {
  int64_t in = -1, program = 0;
  std::vector<std::string> start, moves;
  bool measures = false;
  double begins = 0, ends = 0, predicted = 0, measured = 0;
};

struct StateRecord {
  enum class Kind { Plan, Root, Kernel } kind = Kind::Kernel;
  int64_t parent = -1, search = 0;
  std::vector<std::string> moves; // a plan without parent: all; else those after the parent's
  std::vector<int> stages;        // of a root
  uint64_t plan = 0;              // of a root: the hash of the plan that its kernel belongs to
  uint64_t hash = 0;
  double seconds = 0, made_at = 0;
  std::string reason; // why it went no further, if the search said so
  bool kept = false;
  double measured = 0, measured_at = 0; // seconds; 0: not measured, or rejected
  std::string error;                    // why a measured kernel was rejected
  Terms terms;
  int64_t line = 0; // of the file
};

/// A proposal that was not legal.
struct RefusedRecord {
  int64_t from;
  std::vector<std::string> moves;
  std::string reason;
};

struct ChosenRecord {
  int64_t program = -1;
  std::string how;
  std::vector<std::string> graph_moves, moves;
  uint64_t hash = 0;
  double predicted = 0, measured = 0;
  std::map<uint64_t, Terms> terms; // by the kernel's hash
};

struct KernelRecord {
  struct Param {
    std::string name, type;
    bool written;
  };
  std::string name, ast;
  uint64_t hash = 0;
  std::vector<int> stages, inlined;
  std::vector<std::string> moves;
  std::vector<Param> params;
  double predicted = 0, flops = 0, bytes = 0, limit = 0;
  std::vector<std::pair<std::string, std::string>> sources;
};

struct BufferRecord {
  std::string name, home;
  int64_t bytes = 0, offset = 0;
  int first = 0, last = 0;
};

struct LaunchRecord {
  int64_t kernel; // -1: a whole run
  double start, end;
  int64_t thread;
  double bytes = 0, flops = 0, limit = 0;
  bool is_part = false; // what another thread did of the launch before
};

struct PassRecord {
  std::string name;
  double start, seconds;
};

struct Compilation {
  std::string id, version, machine, device;
  int64_t date = 0;
  int threads = 0;
  std::map<int64_t, NodeRecord> nodes;
  std::vector<GraphStep> steps;
  std::vector<RewriteRecord> rewrites;
  std::vector<std::pair<int64_t, std::string>> origins; // of the last step's nodes
  std::map<int64_t, ProgramRecord> programs;
  std::map<int64_t, SearchRecord> searches;
  std::map<int64_t, StateRecord> states;
  std::vector<RefusedRecord> refused;
  int64_t unlisted = 0, repeated = 0; // states and refusals that were only counted; proposals of known states
  ChosenRecord chosen;
  std::vector<KernelRecord> kernels;
  std::vector<KernelExplanation> explained; // of each kernel, or empty
  std::vector<Saving> savings;              // by predicted times
  std::vector<BufferRecord> buffers;
  int64_t arena_bytes = 0, naive_bytes = 0;
  double flops_per_second = 0, bytes_per_second = 0;
  std::vector<PassRecord> passes;
  std::vector<LaunchRecord> launches;
  double seconds = 0; // until the last record
};

struct TraceContents {
  std::vector<Compilation> compilations;
  TraceCheck check;
};

/// Error(File) if the file can't be read.
TraceContents read_trace(const std::string& path);
/// The compilation asked for: -1 is the last. Error(File) if the file has none, Error(Name) if it has not
/// that one.
const Compilation& pick(const TraceContents& contents, const std::string& path, int64_t which);

} // namespace lathe::view
