// What the options' device and CPU mean for schedules.
#pragma once
#include <string>

#include "lathe/executable.hpp"
#include "lower/program.hpp"
#include "search/machine/target.hpp"

namespace lathe::pipeline {

/// Bytes of the widest vector of a CPU: "native" or an x86-64 level. Error(Value) for another name.
int vector_bytes_of(const std::string& cpu);
/// The options' thread count, with 0 resolved. Error(Value) for a negative one.
int thread_count(const CompileOptions& options);
search::Target target_for(const CompileOptions& options, const lower::Program& program);

} // namespace lathe::pipeline
