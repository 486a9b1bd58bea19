// Options about what code is made for, which the programs' command lines share.
#pragma once
#include <string>

#include "lathe/executable.hpp"

namespace lathe::cli {

struct DeviceOptions {
  std::string device; ///< empty: the default device
  std::string cpu = "native";
  int winograd = CompileOptions{}.winograd;
  int strassen = CompileOptions{}.strassen;
};

} // namespace lathe::cli
