// Whole programs as files of source that need neither lathe nor anything else: to ship a model.
//
// For "c": <name>.c, <name>.h, <name>.weights, an example main.c and a CMakeLists.txt. C11 (or C++11) and libm. GCC and Clang take the
// kernels with vectors, other compilers (or -DLATHE_PORTABLE) the same kernels in plain C. For "opencl": <name>.cl with the kernels,
// and a host program for OpenCL 1.2. All constants are in the weights file, in the order in which the kernels read them.
// The same program, options, stored schedules and measured machine give the same bytes.
//
//   for (const ExportedFile& file : export_program({{"y", x.matmul(w)}}, {.name = "product"})) write(file.name, file.bytes);
#pragma once
#include <string>
#include <vector>

#include "lathe/executable.hpp"

namespace lathe {

struct ExportOptions {
  std::string target = "c";      ///< c or opencl
  std::string name = "model";    ///< of the files and functions; what is no identifier in it becomes `_`
  /// Where intermediates live: "static" in the program, "caller" in memory that each call is given, "malloc" in memory that each call
  /// allocates. For "c" only. Its size is that at the upper bounds of the program's sizes: Error(Limit) if those make it 4 GiB or more.
  std::string arena = "static";
  /// Names of inputs and outputs in the order in which the functions take them: all inputs come before all outputs. Those that are not
  /// among them follow, by name.
  std::vector<std::string> order{};
  /// compile.origins name values in the comments of kernels. compile.device is the one whose stored schedules are used; compile.threads above 1 starts threads (POSIX) for parallel loops.
  CompileOptions compile{};
};

/// A file to write: its name in the folder, and what is in it.
struct ExportedFile {
  std::string name, bytes;
};

/// Error(Name) for an unknown target, Error(Value) for an unknown arena, and what compile() throws.
std::vector<ExportedFile> export_program(const NamedTensors& outputs, const ExportOptions& options = {});

}  // namespace lathe
