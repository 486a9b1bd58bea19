// The format of saved programs: a header (magic, version, format, lengths, checksum), the manifest, and the
// data of tensors that it lists, each with a checksum, one after the other. Numbers are little-endian; texts
// have their length in front. Reading and writing do not interpret the parts.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "compile/run/saved_objects.hpp"
#include "core/storage.hpp"
#include "lathe/executable.hpp"

namespace lathe::pipeline {

inline constexpr size_t kLongestFormat = 16;

struct ProgramFile {
  struct Constant {
    DType dtype;
    std::vector<int64_t> sizes;
    StorageRef data; // written once for all constants that share it
  };
  struct State {
    std::string name, output; // the output that updates it; empty if none does
    Constant values;
  };
  struct Program {
    CompileOptions options; // device, threads, cpu, winograd, strassen and donated
    bool tuned = false;
    /// The printed graph. It returns the outputs, by name, then all declared inputs, and an input for each of
    /// the narrow outputs that is declared as the output is. Constants are realised inputs; their ids are
    /// positions in `constants`.
    std::string graph;
    std::vector<std::string> outputs, narrow_outputs;
    std::vector<Constant> constants;
    /// Graph moves, which `graph` contains already, and moves of the plan.
    std::vector<std::string> graph_moves, moves;
    /// By recurrence: the moves of its body, followed by those of the recurrences inside.
    std::vector<std::vector<std::string>> body_moves;
    std::vector<State> states;
  };
  std::string format, text;
  std::vector<Program> programs;
  std::vector<Constant> tensors;
  SavedObjects objects; // of all programs
};

/// Both throw Error(File) naming the path.
void write_program_file(const ProgramFile& file, const std::string& path);
ProgramFile read_program_file(const std::string& path);

} // namespace lathe::pipeline
