// The first step of every compilation: tensors become outputs that are ready to be lowered.
#pragma once
#include <memory>
#include <vector>

#include "compile/front/moved.hpp"
#include "compile/front/value_names.hpp"
#include "compile/trace/trace.hpp"
#include "lathe/executable.hpp"
#include "lower/program.hpp"

namespace lathe::pipeline {

struct FrontOptions {
  bool simplifies = true;
  /// Computes the subgraphs that depend on realised tensors alone; null: they stay. See graph/folding/constants.hpp.
  graph::Evaluate evaluate = nullptr;
  int64_t folded_bytes = INT64_MAX; ///< as in CompileOptions
  bool unrolls = false;             ///< writes recurrences out step by step, for targets that can't repeat a body
  bool names_values = false;        ///< fills Front::names
  bool takes_moved = true;          ///< set by callers that copy Front::moved; else these outputs are stages
  tracing::Trace* trace = nullptr;    ///< told of the graph after each step; null: nobody is
  std::map<std::string, Tensor> origins{}; ///< as in CompileOptions
};

struct Front {
  std::vector<KernelParam> inputs;         ///< declared by the user; the program may use fewer
  std::vector<lower::NamedOutput> outputs; ///< those that need a kernel
  std::vector<MovedOutput> moved;          ///< those that need no kernel
  graph::Evaluate evaluate = nullptr;      ///< computes constants, also for moves that rewrite the graph
  int64_t folded_bytes = 0;                ///< of the constants that were computed
  ValueNames names{};                      ///< of values outside of recurrences' bodies
  /// The stages to schedule; none if no output needs a kernel.
  std::shared_ptr<const lower::Program> lowered() const;
};

/// Returns the front of these outputs. Error(Name) if an input is declared twice with different shapes or
/// dtypes.
Front take_in(const std::vector<lower::NamedOutput>& outputs, const FrontOptions& options);
Front take_in(const NamedTensors& outputs, const FrontOptions& options);
/// The outputs as nodes, by name.
std::vector<lower::NamedOutput> named_outputs(const NamedTensors& outputs);

} // namespace lathe::pipeline
