// The named inputs that a user's outputs declare.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "compile/front/state_uses.hpp"
#include "lathe/executable.hpp"
#include "lower/program.hpp"

namespace lathe::pipeline {

/// Returns, by name, all named inputs that the outputs reach, also those that simplification will drop.
/// Error(Name) if one name is declared twice with different shapes or dtypes.
std::vector<KernelParam> declared_inputs(const std::vector<lower::NamedOutput>& outputs);

/// Checks CompileOptions::donated. Error(Name) for a name that is no output or input of the program, or that
/// of a state; Error(DType) or Error(Shape) for an input that does not fit its output; Error(Value) for an
/// input donated twice.
void check_donated(const std::map<std::string, std::string>& donated,
                   const std::vector<lower::NamedOutput>& outputs, const std::vector<KernelParam>& inputs,
                   const std::vector<StateUse>& states);

/// Returns the parameter as it stands in memory: of a narrow dtype, its bytes.
KernelParam in_memory(const KernelParam& declared);

} // namespace lathe::pipeline
