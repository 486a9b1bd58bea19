// Compiled programs as files: loaded again without search, and without compiling on the machine that wrote them.
//
// A file holds the program's graph with the tensors it was compiled with, the moves of its schedule, and object code of its kernels.
// On another machine, for another version of lathe, and on devices without object code to keep (opencl), the kernels are compiled
// from the graph and the moves again; where the moves don't suit the machine a schedule is searched for. The file holds code that runs
// in the process: load what you trust.
//
//   save(compile({{"y", x.matmul(w)}}), "layer.lathe");
//   Executable layer = load_executable("layer.lathe");
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "lathe/executable.hpp"

namespace lathe {

/// Replaces the file in one step: a reader sees the old one or the new. Error(File) if it can't be written.
void save(const Executable& executable, const std::string& path);
/// For the device and threads that it was compiled for. Error(File) naming the file if it is absent, damaged or no saved program,
/// Error(Device) if its device is absent.
Executable load_executable(const std::string& path);

/// What is made of several programs, such as one that branches: a file of its own format, with as many programs and tensors as it needs.
struct SavedParts {
  std::string format{};                 ///< at most 16 bytes: who can read `text`; "" is a single Executable's file
  std::string text{};                   ///< any bytes; says how the parts belong together
  std::vector<Executable> programs{};
  std::vector<Tensor> tensors{};        ///< without named inputs; the file holds data that several parts share only once
};
/// As for one Executable.
void save(const SavedParts& parts, const std::string& path);
/// Of any format. Parts that shared data share it again.
SavedParts load_parts(const std::string& path);
/// The format of a saved program, from the file's first bytes; nothing if it is none.
std::optional<std::string> program_file_format(const std::string& path);

}  // namespace lathe
