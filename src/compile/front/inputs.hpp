// The named inputs that a user's outputs declare.
#pragma once
#include <vector>

#include "lathe/executable.hpp"
#include "lower/program.hpp"

namespace lathe::pipeline {

/// All named inputs that can be reached, also those that simplification will drop; by name. Error(Name) if
/// one name is declared twice with different shapes or dtypes.
std::vector<KernelParam> declared_inputs(const std::vector<lower::NamedOutput>& outputs);

} // namespace lathe::pipeline
