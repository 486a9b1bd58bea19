// From a plan to an Executable: kernels compiled, buffers placed.
#pragma once
#include <map>

#include "compile/front/moved.hpp"
#include "compile/run/saved_objects.hpp"
#include "compile/run/states.hpp"
#include "compile/trace/trace.hpp"
#include "lathe/executable.hpp"
#include "search/beam/fusions.hpp"
#include "search/moves/plan.hpp"

namespace lathe::pipeline {

struct AssembleOptions {
  CompileOptions compile;
  std::vector<KernelParam> declared_inputs; // the user's; the program may use fewer
  bool tuned = false;
  std::vector<MovedOutput> moved;          // outputs that need no kernel
  std::vector<search::Move> graph_moves{}; // of a saved program: those that made its graph
  const SavedObjects* objects = nullptr;   // object code of kernels that need no compiling
  int64_t folded_bytes = 0;                // as Executable::folded_bytes
  std::shared_ptr<tracing::Trace> trace{};   // told of kernels, memory and launches; null: nobody is
  bool is_body = false;                    // of a recurrence
  std::vector<StateUse> states{};          // by name
  /// As in CompileOptions. That of `compile` is ignored: it is about the user's program, not about the bodies and the measured
  /// plans that are assembled with the same options.
  std::map<std::string, std::string> donated{};
  bool quick = false;                      // the plan came from a quick search
  std::shared_ptr<const std::vector<search::TriedFusion>> fusions{}; // as SearchResult has them
  bool keeps_graph = true;                 // off: the Executable can only run, and holds no node
};
Executable assemble(search::Plan plan, const AssembleOptions& options);
/// Assembles a plan whose declared inputs are the program's.
Executable build(const search::Plan& plan, const CompileOptions& options);

} // namespace lathe::pipeline
