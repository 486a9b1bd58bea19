// The constants of an exported program as one file, little endian: 128 bytes of header, then each constant at
// a multiple of 128 bytes.
//
//   header: "lathe-w1", u64 bytes of the whole file, u64 checksum of what follows the header, zeros
//
// The checksum takes 64-bit words: h = (h ^ word) * 0x9E3779B97F4A7C15, from 0xCBF29CE484222325. A change of
// one word always changes it. It also tells one program's weights from another's: the program holds its own
// header.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "compile/export/program_layout.hpp"

namespace lathe::pipeline {

struct WeightsFile {
  static constexpr size_t kHeaderBytes = 128, kCheckedBytes = 24; // of the header, what is not zero
  std::string bytes;
  std::vector<size_t> offsets; // of each constant, from the beginning of the file
};

WeightsFile pack_weights(const std::vector<ProgramLayout::Constant>& constants);

} // namespace lathe::pipeline
