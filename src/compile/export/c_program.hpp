// The parts of a program as C that do not depend on the file around them: its kernels, the memory that it
// needs, and the statements that run it.
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "compile/export/program_layout.hpp"
#include "runtime/kernel_abi.hpp"

namespace lathe::pipeline {

class CProgram {
public:
  CProgram(const ProgramLayout& layout, int threads) : CProgram(layout, threads, 0, nullptr) {}

  /// Whether loops run on a team of threads (export_c_threads.hpp).
  bool parallel() const { return threads_ > 1; }
  /// Returns the bytes of intermediates and scratch, at the upper bounds of the sizes.
  int64_t arena_bytes() const { return end_ + scratch_bytes_ * threads_; }
  int64_t scratch_bytes() const { return scratch_bytes_; } // of one thread

  /// Returns the kernels as static functions, without a prelude. `vector_bytes`: 0 for plain C.
  std::string kernels(int vector_bytes) const;
  /// Returns the statements that call the kernels and then copy outputs that equal another. They use the
  /// parameters, `memory` (unsigned char*, the arena) and, if loops run in parallel, `team`. `constant`
  /// returns an expression for a constant of the layout: a pointer to `type`.
  using ConstantText = std::function<std::string(size_t index, const std::string& type)>;
  std::string statements(const ConstantText& constant) const;

private:
  /// A recurrence: its body, and two places for each state, bytes into the arena.
  struct Recurrence {
    std::unique_ptr<const CProgram> body;
    std::vector<int64_t> states;
  };
  class RecurrenceText;

  /// The program's intermediates begin at `begin`. A body has the scratch of the program around it.
  CProgram(const ProgramLayout& layout, int threads, int64_t begin, const CProgram* outer);
  int64_t reserve(int64_t bytes); // returns where they begin

  std::string place_text(const ast::Buffer& buffer, const ConstantText& constant) const;
  std::string call(size_t kernel, const ConstantText& constant) const;
  std::string calls(const ConstantText& constant, const std::string& indent) const;
  std::string copy(const ProgramLayout::Copy& copy) const;

  const ProgramLayout& layout_;
  const int threads_;
  const CProgram* const outer_;               // null: this is no body
  std::vector<runtime::ScratchLayout> scratch_; // of each kernel
  std::vector<Recurrence> recurrences_;       // by kernel; without a body: none
  std::map<DType, int64_t> region_;           // begin of a dtype's intermediates, bytes into the arena
  int64_t end_, scratch_bytes_ = 0;           // end_: of intermediates; scratch begins there
};

} // namespace lathe::pipeline
