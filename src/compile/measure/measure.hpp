// Candidates of the search on the real device: compiled, checked against the unscheduled kernel, timed, all in
// a process of their own (docs/decisions/measuring-in-its-own-process.md).
#pragma once
#include "lathe/executable.hpp"
#include "lower/program.hpp"
#include "search/beam/measurement.hpp"

namespace lathe::pipeline {

struct Measuring {
  search::Measure measure;
  search::Prepare prepare;
};
/// The callbacks that search::search takes; they share a measuring process, started at the first call, and are
/// for one thread. Sizes with variables are measured at a representative value.
Measuring make_measure(std::shared_ptr<const lower::Program> program, const CompileOptions& options);

} // namespace lathe::pipeline
