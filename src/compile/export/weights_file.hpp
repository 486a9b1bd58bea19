// The constants of an exported program as one file, little endian: 128 bytes of header, then each constant at
// a multiple of 128 bytes.
//
//   header: "lathe-w2", u64 bytes of the whole file, u64 checksum of what follows the header, zeros
//
// The checksum starts from the number of bytes and takes in 64-bit words by mix() of core/hash.hpp. It also
// tells one program's weights from another's, because a program holds its own header.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "compile/export/program_layout.hpp"

namespace lathe::pipeline {

struct WeightsFile {
  static constexpr size_t kHeaderBytes = 128, kCheckedBytes = 24; // of the header: all but the zeros
  std::string bytes;
  std::vector<size_t> offsets; // of each constant, from the beginning of the file
};

WeightsFile pack_weights(const std::vector<ProgramLayout::Constant>& constants);

} // namespace lathe::pipeline
