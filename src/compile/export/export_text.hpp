// The common parts of the exported files of all targets: names, templates, and text that does not depend on
// the target.
#pragma once
#include <map>
#include <string>

#include "compile/export/program_layout.hpp"
#include "compile/export/weights_file.hpp"

namespace lathe::pipeline {

/// Returns `text` with every @key@ replaced by its value.
std::string filled(std::string text, const std::map<std::string, std::string>& values);

/// An exported program: the data from which its files are written.
struct ExportedProgram {
  std::string name, upper; // identifiers: model, MODEL
  std::string target;      // CMake's, of the library
  render::Names names;
  ProgramLayout layout;
  WeightsFile weights;
};

/// Returns the C type of a dtype's elements in memory: `float` for f32, `uint16_t` for f16.
std::string storage_type(DType dtype);
/// Returns the parameters of a C function: `const float* data`, `float* prob`, `int64_t n`.
std::vector<std::string> value_parameters(const ProgramLayout& layout);
/// Returns defines of the ports' element counts, and comments with their shapes.
std::string port_declarations(const ExportedProgram& program);
/// Returns error codes, sizes and the declaration of the weights' check, for the header.
std::string common_declarations(const ExportedProgram& program);
/// Returns the definitions of the functions that common_declarations declares.
std::string common_functions(const ExportedProgram& program);
/// Returns C statements that return an error code if a size is out of bounds.
std::string size_checks(const ExportedProgram& program);
/// The parts of main.c that depend on the target: functions, variables, the call (an expression that gives an
/// error code), and the statements before and after it.
struct MainParts {
  std::string usage, helpers, declarations, before, call, after;
};
std::string main_text(const ExportedProgram& program, const MainParts& parts);

} // namespace lathe::pipeline
