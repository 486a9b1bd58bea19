// What the instructions of the table that take several elements at once reach on this machine.
#pragma once
#include <string>
#include <vector>

namespace lathe::pipeline {

struct TensorPeak {
  std::string instruction;
  bool adds_floats;
  double operations_per_second; // multiplications and additions, of one core
};
/// For each such instruction of the device cpu: the rate of a kernel whose operands stay in the first-level
/// cache.
std::vector<TensorPeak> tensor_peaks();

} // namespace lathe::pipeline
