// From a plan to an Executable: kernels compiled, buffers placed.
#pragma once
#include "compile/moved.hpp"
#include "compile/pipeline.hpp"

namespace lathe::pipeline {

struct AssembleOptions {
  CompileOptions compile;
  std::vector<KernelParam> declared_inputs; // the user's; the program may use fewer
  bool tuned = false;
  std::vector<MovedOutput> moved; // outputs that need no kernel
};
Executable assemble(const search::Plan& plan, const AssembleOptions& options);

/// The options' thread count, with 0 resolved. Error(Value) for a negative one.
int thread_count(const CompileOptions& options);

} // namespace lathe::pipeline
