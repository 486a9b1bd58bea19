// The trace of one compilation, and of the runs of the program that it made. docs/trace.md describes the
// records.
//
//   const auto trace = Trace::open(options);      // null unless options.trace names a file
//   if (trace) trace->graph("given", outputs);
//   ...
//   if (trace) trace->flush();                    // Error(File) if something could not be written
//
// launch(), part() and ends_run() may be called from several threads at once; the rest belongs to the thread
// that compiles.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "compile/trace/search_recorder.hpp"
#include "graph/node.hpp"
#include "lathe/executable.hpp"
#include "lathe/profile.hpp"
#include "lower/program.hpp"
#include "search/cost/cost.hpp"

namespace lathe {
struct Explanation;
}

namespace lathe::tracing {

/// A compiled kernel, for its record.
struct KernelText {
  std::string name;
  const search::KernelPlan* plan = nullptr;
  double predicted_seconds = 0;
  double flops = 0, bytes = 0, limit_seconds = 0;             // 0 if a size is known only at run time
  std::vector<std::pair<std::string, std::string>> sources{}; // by language: "llvm", "c", "asm"
};

/// A buffer of the compiled program.
struct PlacedBuffer {
  std::string name, home; // home: input, output, data or arena
  int64_t bytes = 0, offset = 0;
  int first = 0, last = 0; // launches that touch it; offset and these are of buffers in the arena
};

class Trace final : public SearchRecorder {
public:
  static std::shared_ptr<Trace> open(const CompileOptions& options);
  ~Trace() override;

  double now() const; ///< seconds since open()
  void pass(const std::string& name, double start);

  // Graphs. A step is a name, such as "given": the nodes are what the step left.
  void graph(const std::string& step, const std::vector<graph::NodeRef>& outputs);
  graph::RewriteTrace rewrites();
  /// The user's names of nodes of the last graph.
  void origins(const std::vector<std::pair<std::string, graph::NodeRef>>& named);

  // The program.
  /// `how`: where the plan came from: "moves", "database", "model" or "tuning".
  void chosen(const search::Plan& plan, const search::CostModel& model, const std::string& how,
              double predicted_seconds, double measured_seconds);
  void kernel(const KernelText& kernel);
  void memory(const std::vector<PlacedBuffer>& buffers, int64_t arena_bytes, int64_t naive_bytes);
  /// The roofline's two sides, of this machine with these threads.
  void machine(double flops_per_second, double bytes_per_second, int threads);

  /// Why the kernels are as they are.
  void explained(const Explanation& explanation);

  /// Whether the run that begins is recorded: the first few are.
  bool begins_run();
  void launch(size_t kernel, double start, const LaunchTime& launch);
  /// What another thread did of the launch of a kernel. `thread`: as the system numbers it.
  void part(size_t kernel, Clock::time_point start, Clock::time_point end, int64_t thread);
  void ends_run(double start);
  /// Error(File) if something could not be written.
  void flush();

private:
  friend class SearchWriter;
  struct State;
  explicit Trace(std::unique_ptr<State> state);
  std::string fields_of(const lower::Program& program, uint64_t hash,
                        const search::Target& target) const override;
  void told(bool all) override;
  /// Writes what searches have told.
  void write_told();
  std::unique_ptr<State> state_;
};

/// Records the time from its making to its end as a pass. `trace` may be null.
class TimedPass {
public:
  TimedPass(Trace* trace, std::string name)
      : trace_(trace), name_(std::move(name)), start_(trace ? trace->now() : 0) {}
  ~TimedPass() {
    if (trace_) trace_->pass(name_, start_);
  }
  TimedPass(const TimedPass&) = delete;
  TimedPass& operator=(const TimedPass&) = delete;

private:
  Trace* trace_;
  std::string name_;
  double start_;
};

} // namespace lathe::tracing
