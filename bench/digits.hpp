// The digits: 1,797 handwritten digits of 8x8 pixels, and the plain nearest-neighbour search they are
// classified by.
#pragma once
#include <string>

#include "host_tensor.hpp"

namespace lathe::bench {

struct Digits {
  std::vector<float> pixels; ///< 64 a row, 0..16
  std::vector<int32_t> labels;
  int64_t rows() const { return static_cast<int64_t>(labels.size()); }
};

/// Reads the gzipped CSV once; Error(File) if it is missing or damaged. The path comes from set_digits_path.
const Digits& digits();
void set_digits_path(const std::string& path);

} // namespace lathe::bench
