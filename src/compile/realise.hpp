// Computes the values of nodes: compiles their graph for the default device and runs it once. Also lowers
// programs whose constants have values.
#pragma once
#include <memory>
#include <vector>

#include "lathe/executable.hpp"
#include "lower/program.hpp"

namespace lathe::pipeline {

/// Returns the nodes' values, row-major, in new storage. The nodes hold no named input and have constant
/// sizes. Throws what compiling and running throw.
std::vector<StorageRef> values_of(const std::vector<graph::NodeRef>& nodes);

/// The same, for constants of a program that is compiled. Those of few elements are computed one by one, which
/// takes less time than compiling.
std::vector<StorageRef> constants_of(const std::vector<graph::NodeRef>& nodes);

/// Returns the outputs as compile() lowers them: simplified, with the values of constants.
std::shared_ptr<const lower::Program> lowered(const NamedTensors& outputs);

} // namespace lathe::pipeline
