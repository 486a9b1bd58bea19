// The cpu device, below Executable.
#pragma once
#include "runtime/device.hpp"

namespace lathe::test {

inline runtime::Device& cpu() {
  static const auto device = runtime::make_cpu_device();
  return *device;
}

} // namespace lathe::test
