// The target of schedules, from the options' device and CPU.
#pragma once
#include <string>

#include "lathe/executable.hpp"
#include "lower/program.hpp"
#include "search/machine/target.hpp"

namespace lathe::pipeline {

/// Returns the bytes of a CPU's widest vector: "native" or an x86-64 level. Error(Value) for another name.
int vector_bytes_of(const std::string& cpu);
/// Returns the options' thread count, with 0 resolved. Error(Value) if it is negative or above 1024.
int thread_count(const CompileOptions& options);
search::Target target_for(const CompileOptions& options, const lower::Program& program);

} // namespace lathe::pipeline
