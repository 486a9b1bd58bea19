// What the exported files of all targets share: names, templates and the parts that do not depend on the
// target.
#pragma once
#include <map>
#include <string>

#include "compile/export/program_layout.hpp"
#include "compile/export/weights_file.hpp"

namespace lathe::pipeline {

/// `text` with every @key@ replaced.
std::string filled(std::string text, const std::map<std::string, std::string>& values);

/// An exported program, with what its files are written from.
struct ExportedProgram {
  std::string name, upper; // identifiers: model, MODEL
  std::string target;      // CMake's, of the library
  render::Names names;
  ProgramLayout layout;
  WeightsFile weights;
};

/// C's type of a dtype's elements in memory: `float`, and `uint16_t` for f16.
std::string storage_type(DType dtype);
/// `const float* data, float* prob, int64_t n`
std::vector<std::string> value_parameters(const ProgramLayout& layout);
/// Defines of the ports' element counts, comments with their shapes.
std::string port_declarations(const ExportedProgram& program);
/// Error codes, sizes and the check of the weights, for the header.
std::string common_declarations(const ExportedProgram& program);
/// What stands behind common_declarations.
std::string common_functions(const ExportedProgram& program);
/// Returns an error code where a size is out of bounds.
std::string size_checks(const ExportedProgram& program);
/// What main.c has of a target's own: functions, variables, what stands before the call (an expression that
/// gives an error code) and after it.
struct MainParts {
  std::string usage, helpers, declarations, before, call, after;
};
std::string main_text(const ExportedProgram& program, const MainParts& parts);

} // namespace lathe::pipeline
