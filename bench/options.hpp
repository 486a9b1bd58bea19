// What the commands take from the command line, checked.
#pragma once
#include <string>
#include <vector>

#include "cli/device_options.hpp"
#include "cli/duration.hpp"
#include "workloads.hpp"

namespace lathe::bench {

struct Options : cli::DeviceOptions {
  std::string workload; ///< a name, or "all"
  std::string shape;    ///< empty: the default
  std::string dtype = "f32";
  int threads = 1;
  bool json = false;

  bool untuned = false; ///< run: ignore stored schedules
  std::string budget = "30s";
  int beam = 8;
  uint64_t seed = 1;
  std::string log, replay;
  std::string trace; ///< run, tune
  bool no_measure = false;
  std::string peers;               ///< empty: all that are available
  std::string python;              ///< compare: a virtual environment with further peers
  std::string joint_budget = "5s"; ///< joint: of each search
  std::string tracing_budget = "15s"; ///< tracing: processor time for each workload
  std::string tune_budget;         ///< compare: tune first for so long; empty: don't
  std::string target = "c";        ///< emit
  bool tuned = false;              ///< emit: the stored schedule
  std::string data;                ///< another file of digits
  std::string page = "lathe-demo.html"; ///< demo
  std::string moves;               ///< explain: a file of moves
  int plans = 300;                 ///< rank
  std::string action;              ///< db: list, show, export, import or prune
  std::string key, file;           ///< db show; db export and import
  int64_t older_days = 0;          ///< db prune
  std::vector<int64_t> sizes{16, 64, 256, 512, 1024}; ///< matrices
};

/// "30s", "500ms", "2m" or a number of seconds. Error(Value).
using cli::parse_seconds;

/// One case to do, or all of them if the workload is "all".
struct Selection {
  const Workload* workload;
  Sizes shape;
};
std::vector<Selection> select(const Options& options);

/// Device, CPU, threads; Error(Device) if the device is unknown or absent, saying why.
CompileOptions compile_options(const Options& options);

} // namespace lathe::bench
