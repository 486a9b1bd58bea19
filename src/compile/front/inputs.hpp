// The named inputs that a user's outputs declare.
#pragma once
#include <vector>

#include "lathe/executable.hpp"
#include "lower/program.hpp"

namespace lathe::pipeline {

/// Returns, by name, all named inputs that the outputs reach, also those that simplification will drop.
/// Error(Name) if one name is declared twice with different shapes or dtypes.
std::vector<KernelParam> declared_inputs(const std::vector<lower::NamedOutput>& outputs);

/// Returns the parameter as it stands in memory: of a narrow dtype, its bytes.
KernelParam in_memory(const KernelParam& declared);

} // namespace lathe::pipeline
