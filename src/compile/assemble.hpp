// From a plan to an Executable: kernels compiled, buffers placed.
#pragma once
#include "compile/moved.hpp"
#include "compile/pipeline.hpp"
#include "compile/saved_objects.hpp"

namespace lathe::pipeline {

struct AssembleOptions {
  CompileOptions compile;
  std::vector<KernelParam> declared_inputs; // the user's; the program may use fewer
  bool tuned = false;
  std::vector<MovedOutput> moved;          // outputs that need no kernel
  std::vector<search::Move> graph_moves{}; // that made the plan's program, of a program that was saved
  const SavedObjects* objects = nullptr;   // what need not be compiled
};
Executable assemble(const search::Plan& plan, const AssembleOptions& options);

/// The options' thread count, with 0 resolved. Error(Value) for a negative one.
int thread_count(const CompileOptions& options);

} // namespace lathe::pipeline
