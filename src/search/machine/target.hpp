// What code is made for.
#pragma once
#include <cstdint>
#include <string>

#include "lathe/dtype.hpp"

namespace lathe::search {

/// What code is made for: read by moves (vector widths, scopes allowed), suggesters and the cost model.
struct Target {
  std::string device = "cpu";
  int vector_bytes = 64; // widest vector of the CPU (16, 32, 64)
  int vector_registers = 32;
  int threads = 1;
  bool groups = false; // OpenCL: group and local loops, local memory
  bool gpu = false;
  int64_t local_bytes = 32768;
  /// Of all constants of the program: caches that don't hold them all have lost a kernel's when its turn
  /// comes again.
  int64_t constant_bytes = 0;
  int constants = 1; // that make up nearly all of these bytes
  int lanes(DType d) const { return vector_bytes / size_of(d); }
};

} // namespace lathe::search
