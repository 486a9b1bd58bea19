// What a trace says of an assembled program: its kernels with their source, and its memory.
#pragma once
#include "compile/run/executable_impl.hpp"
#include "compile/trace/trace.hpp"

namespace lathe::pipeline {

/// `memory`: where the arena's buffers lie at the upper bounds of all sizes.
void record(const Executable::Impl& program, const lower::MemoryPlan& memory, tracing::Trace& trace);

} // namespace lathe::pipeline
