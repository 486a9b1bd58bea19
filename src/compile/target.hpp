// What the options' device and CPU mean for schedules.
#pragma once
#include <string>

#include "compile/pipeline.hpp"

namespace lathe::pipeline {

/// Bytes of the widest vector of a CPU: "native" or an x86-64 level. Error(Value) for another name.
int vector_bytes_of(const std::string& cpu);

} // namespace lathe::pipeline
