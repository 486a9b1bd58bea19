// Candidates of the search on the real device: compiled, checked against the unscheduled kernel, timed.
#pragma once
#include "compile/pipeline.hpp"

namespace lathe::pipeline {

/// The callback that search::search takes. Sizes with variables are measured at a representative value.
search::Measure make_measure(std::shared_ptr<const lower::Program> program, const CompileOptions& options);

} // namespace lathe::pipeline
