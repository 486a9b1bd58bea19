// How a program gets its plan.
#pragma once
#include "compile/trace/trace.hpp"
#include "lathe/executable.hpp"
#include "lower/program.hpp"
#include "search/beam/search.hpp"
#include "search/moves/plan.hpp"

namespace lathe::pipeline {

/// Returns the plan from options.moves, the database, or a search (with measurements if options.tune). Tuning
/// checks the plans that it starts from and the one that it returns: InternalError with the program if one is
/// wrong.
/// `start`: for tests, the plan that tuning starts from instead of the untuned one.
/// `trace`: told of the searches and of the plan; null: nobody is.
search::SearchResult schedule(std::shared_ptr<const lower::Program> program, const CompileOptions& options,
                              const search::Plan* start = nullptr, tracing::Trace* trace = nullptr);

} // namespace lathe::pipeline
