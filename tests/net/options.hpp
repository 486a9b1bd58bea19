// The net's command line.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "net/program.hpp"

namespace lathe::net {

struct Options {
  uint64_t programs = 1000, seed = 0, from = 0; // from: the first program's number
  double seconds = 1e9;                         // stops early after
  double patience = 90;                         // of one batch, before it counts as hanging
  double shrink_seconds = 20;                   // a finding
  std::string device = "cpu", dump;
  std::vector<DType> dtypes;
  bool tuned = false, gradients = false, symbolic = false, empty = false, quick = false,
       list = false;
  int batch = 0, jobs = 1; // programs compiled together; 0: by the device
  std::vector<std::string> only, avoid;
  uint64_t most_findings = 20; // printed in full
  std::optional<uint64_t> replay;
};

Options parse_options(int argc, char** argv); // throws std::runtime_error
bool device_there(const std::string& name);

} // namespace lathe::net
