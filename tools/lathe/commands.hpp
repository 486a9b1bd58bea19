// The commands of `lathe`, the command line for ONNX models. Each returns the exit status: 0, or 1 where a
// result is not what it should be. What the user or a file has wrong is thrown as lathe::Error.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "cli/device_options.hpp"
#include "lathe/onnx.hpp"

namespace lathe::tool {

struct Options : cli::DeviceOptions {
  std::string model;              ///< for inspect, run and check also a file that compile wrote
  std::vector<std::string> sizes; ///< name=number, for sizes that the model names
  int versions = 4;               ///< for sizes of calls
  int threads = 0;
  // inspect
  bool listing = false, layers = false;
  // run, check, compile
  std::vector<std::string> inputs; ///< file, or name=file
  std::string output_dir, data, profile;
  bool tuned = true, random = false;
  int runs = 1;
  bool best_first = false; ///< for run
  double tolerance = 1e-3;
  // compile
  std::string output;
  // tune
  std::string budget = "1m";
  uint64_t seed = 1;
  // run, compile, tune
  std::string trace;
  // view
  std::vector<std::string> traces, print;
  int64_t compilation = -1;
  bool check = false;
  // explain
  bool json = false;
  // quantise
  std::string method = "range", labels;
  double percentile = 99.99;
  int weights_only = 0;
  int64_t block = 32;
  std::vector<std::string> keep;
  std::optional<double> most_error;
  bool correct_bias = true;
  // export
  std::string target = "c", name, arena = "static";
};

int inspect_command(const Options& options);
int run_command(const Options& options);
int check_command(const Options& options);
int compile_command(const Options& options);
int tune_command(const Options& options);
int quantise_command(const Options& options);
int explain_command(const Options& options);
int view_command(const Options& options);
int export_command(const Options& options);

onnx::ImportOptions import_options(const Options& options);

} // namespace lathe::tool
