// Measures candidates of the search on the real device: compiles them, checks them against the unscheduled
// kernel and times them, in a process of their own (docs/decisions/measuring-in-its-own-process.md).
#pragma once
#include "lathe/executable.hpp"
#include "lower/program.hpp"
#include "search/beam/measurement.hpp"

namespace lathe::pipeline {

struct Measuring {
  search::Measure measure;
  search::Prepare prepare;
};
/// Returns the callbacks that search::search takes, for one thread. They share a measuring process, which
/// starts at the first call. Shape variables have a representative value.
Measuring make_measure(std::shared_ptr<const lower::Program> program, const CompileOptions& options);

} // namespace lathe::pipeline
