// DeviceOptions on a command line.
#pragma once
#include <CLI/CLI.hpp>

#include "cli/device_options.hpp"

namespace lathe::cli {

inline void add_device_options(CLI::App& command, DeviceOptions& options) {
  command.add_option(
      "--device", options.device,
      "cpu (LLVM), c (the system's C compiler), opencl or interp; the best there is if left out");
  command
      .add_option("--cpu", options.cpu,
                  "what the code may use: native, x86-64, x86-64-v2, x86-64-v3 or x86-64-v4")
      ->capture_default_str();
  command
      .add_option("--winograd", options.winograd,
                  "largest tile of Winograd's filtering for 3x3 convolutions: 4, 2, or 0 for never")
      ->capture_default_str()
      ->check(CLI::IsMember({0, 2, 4}));
  command
      .add_option("--strassen", options.strassen,
                  "most levels of Strassen's algorithm for products of matrices: 1 or 2, or 0 for never")
      ->capture_default_str()
      ->check(CLI::Range(0, 2));
}

} // namespace lathe::cli
