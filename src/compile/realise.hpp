// The values of nodes, by compiling their graph for the default device and running it once; and programs whose constants have
// theirs.
#pragma once
#include <memory>
#include <vector>

#include "lathe/executable.hpp"
#include "lower/program.hpp"

namespace lathe::pipeline {

/// Row-major, in new storage. The nodes hold no named input and are static. Throws what compiling and running throw.
std::vector<StorageRef> values_of(const std::vector<graph::NodeRef>& nodes);

/// The outputs as compile() lowers them: simplified, constants with their values.
std::shared_ptr<const lower::Program> lowered(const NamedTensors& outputs);

} // namespace lathe::pipeline
