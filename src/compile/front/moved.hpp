// Outputs that are views of inputs. A transpose, a flip or an expand by itself needs no kernel.
#pragma once
#include <string>
#include <vector>

#include "lathe/executable.hpp"
#include "lower/program.hpp"

namespace lathe::pipeline {

struct MovedOutput {
  KernelParam declared; // of a narrow dtype, the view is of its bytes
  graph::NodeRef input; // Op::Input
  View view;            // of the input's row-major elements
};

/// Removes the outputs that are one view of an input, of constant size, from `outputs` and returns them.
std::vector<MovedOutput> take_moved(std::vector<lower::NamedOutput>& outputs);

} // namespace lathe::pipeline
