// The whole pipeline on one screen: graph -> program -> plan -> kernels -> device programs -> executable.
#pragma once
#include "lathe/executable.hpp"
#include "lower/program.hpp"
#include "runtime/device.hpp"
#include "search/search.hpp"

namespace lathe::pipeline {

std::vector<lower::NamedOutput> simplify(const std::vector<lower::NamedOutput>& outputs);
/// What depends on realised tensors alone becomes one; see graph/constants.hpp.
std::vector<lower::NamedOutput> fold_constants(const std::vector<lower::NamedOutput>& outputs);
/// The stages that `compile` schedules, but for outputs that need no kernel (moved.hpp).
std::shared_ptr<const lower::Program> lowered(const NamedTensors& outputs);
search::Target target_for(const CompileOptions& options, const lower::Program& program);
/// The plan by: options.moves, the database, or search (with measurements if options.tune). Tuning checks the
/// plans that it starts from and the one that it returns: InternalError with the program if one is wrong.
/// `start`: for tests, the plan that tuning starts from instead of the untuned one.
search::SearchResult schedule(std::shared_ptr<const lower::Program> program, const CompileOptions& options,
                              const search::Plan* start = nullptr);
/// ast::prepare, and verify in debug builds.
ast::Kernel finalise(const ast::Kernel& scheduled);
std::string emit_kernel(const ast::Kernel& finalised, const std::string& target,
                        const CompileOptions& options);

/// For tests: compiles a given plan for a device, without search.
Executable build(const search::Plan& plan, const CompileOptions& options);

} // namespace lathe::pipeline
