// The files of an exported program, by target.
#pragma once
#include <vector>

#include "compile/export/export_text.hpp"
#include "lathe/export.hpp"

namespace lathe::pipeline {

std::vector<ExportedFile> export_c(ExportedProgram& program, const ExportOptions& options);
std::vector<ExportedFile> export_opencl(ExportedProgram& program);

} // namespace lathe::pipeline
