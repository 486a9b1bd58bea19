// The target that code is made for.
#pragma once
#include <cstdint>
#include <string>

#include "core/instruction.hpp"
#include "lathe/dtype.hpp"

namespace lathe::search {

/// The target that code is made for; moves, suggesters and the cost model read it.
struct Target {
  std::string device = "cpu";
  int vector_bytes = 64; // widest vector of the CPU (16, 32, 64)
  int vector_registers = 32;
  /// Of the CPU, those that take several elements at once, widest first.
  Instructions instructions = {};
  int byte_table = 0; // of 256 bytes in registers, those that one instruction looks up in: 128, 16; 0: none
  int threads = 1;
  bool groups = false; // OpenCL: group and local loops, local memory
  bool gpu = false;
  int64_t local_bytes = 32768;
  /// Bytes of all constants of the program. A cache that doesn't hold them all has lost a kernel's constants
  /// before the kernel runs again.
  int64_t constant_bytes = 0;
  int constants = 1; // number of constants that make up nearly all of these bytes
  int lanes(DType d) const { return vector_bytes / size_of(d); }
};

} // namespace lathe::search
