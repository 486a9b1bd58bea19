// The front of every way through the compiler: tensors in, outputs ready to be lowered out.
#pragma once
#include <memory>
#include <vector>

#include "compile/front/moved.hpp"
#include "lathe/executable.hpp"
#include "lower/program.hpp"

namespace lathe::pipeline {

struct FrontOptions {
  bool simplifies = true;
  /// What depends on realised tensors alone becomes one, by this function; null: it does not. See graph/constants.hpp.
  graph::Evaluate evaluate = nullptr;
  bool takes_moved = true; ///< for whoever copies Front::moved; else they are stages like others
};

struct Front {
  std::vector<KernelParam> inputs;         ///< that the user declared; the program may use fewer
  std::vector<lower::NamedOutput> outputs; ///< that need a kernel
  std::vector<MovedOutput> moved;          ///< that need none
  graph::Evaluate evaluate = nullptr;      ///< of constants, also where a move of the search rewrites the graph
  /// The stages to schedule; none if no output needs a kernel.
  std::shared_ptr<const lower::Program> lowered() const;
};

/// Error(Name) if an input is declared twice with different shapes or dtypes.
Front take_in(const std::vector<lower::NamedOutput>& outputs, const FrontOptions& options);
Front take_in(const NamedTensors& outputs, const FrontOptions& options);

} // namespace lathe::pipeline
