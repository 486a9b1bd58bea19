// Whole programs as files to ship: takes the schedule that compile() would take, places its values and calls
// the writer for the target.
#include "lathe/export.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "compile/export/export_targets.hpp"
#include "compile/front/front.hpp"
#include "compile/realise.hpp"
#include "compile/schedule.hpp"
#include "lathe/error.hpp"

namespace lathe {
namespace {

using namespace pipeline;

/// Adds the sizes of inputs that the program does not use as parameters: they say how large the inputs are.
void add_declared_vars(ProgramLayout& layout, render::Names& names) {
  for (const ProgramLayout::Port& input : layout.inputs)
    for (const Expr size : input.declared.shape) {
      std::vector<Expr> vars;
      collect_vars(size, vars);
      for (const Expr var : vars)
        if (!layout.var_names.count(var.name())) {
          layout.var_names[var.name()] = names.fresh(var.name());
          layout.vars.push_back(var);
        }
    }
}

/// Takes the names that the function which runs the program uses itself: ports and sizes are its parameters.
void take_names(ExportedProgram& program) {
  for (const char* name :
       {"weights", "arena", "memory", "block", "constants", "error", "team", "self", "queue", "status"})
    program.names.fresh(name);
  for (const char* part :
       {"run", "open", "close", "fail", "launch", "check_header", "check_weights", "header", "arena"})
    program.names.fresh(program.name + "_" + part);
  for (const char* part :
       {"OK", "BAD_SIZE", "MISALIGNED", "NO_MEMORY", "DEVICE_FAILED", "WEIGHTS_BYTES", "ARENA_BYTES"})
    program.names.fresh(program.upper + "_" + part);
}

/// Returns whether CMake has a target or a library of this name itself.
bool is_target_of_cmake(const std::string& name) {
  constexpr std::string_view kTaken[] = {
      "all",       "clean",          "depend",     "edit_cache",    "help",      "install",
      "package",   "package_source", "preinstall", "rebuild_cache", "test",      "m",
      "ALL_BUILD", "CONFIGURE",      "INSTALL",    "PACKAGE",       "RUN_TESTS", "ZERO_CHECK"};
  return std::find(std::begin(kTaken), std::end(kTaken), name) != std::end(kTaken);
}

} // namespace

std::vector<ExportedFile> export_program(const NamedTensors& outputs, const ExportOptions& options) {
  if (options.target != "c" && options.target != "opencl")
    throw Error(ErrorKind::Name,
                fmt::format("export: target \"{}\" is unknown, expected c or opencl", options.target));
  if (options.arena != "static" && options.arena != "caller" && options.arena != "malloc")
    throw Error(
        ErrorKind::Value,
        fmt::format("export: arena \"{}\" is unknown, expected static, caller or malloc", options.arena));
  if (outputs.empty()) throw Error(ErrorKind::Value, "export: no outputs, expected at least one");
  const Front front = take_in(outputs, {.evaluate = constants_of,
                                        .unrolls = options.target == "opencl",
                                        .names_values = true,
                                        .takes_moved = false,
                                        .origins = options.compile.origins});

  ExportOptions chosen = options;
  if (options.target == "opencl") chosen.compile.device = "opencl"; // a schedule for work-groups
  const InExprScope inside(new_expr_scope());
  const search::Plan plan = schedule(front.lowered(), chosen.compile).plan;

  ExportedProgram program;
  program.name = render::identifier(options.name);
  program.target = program.name + (is_target_of_cmake(program.name) ? "_program" : "");
  program.upper = in_capitals(program.name);
  take_names(program);
  const KernelNotes notes(plan, chosen.compile, front.names);
  program.layout = lay_out(plan, notes, front.inputs, program.names, program.name + "_", options.order);
  add_declared_vars(program.layout, program.names);
  program.weights = pack_weights(program.layout.constants);
  return options.target == "c" ? export_c(program, chosen) : export_opencl(program);
}

} // namespace lathe
