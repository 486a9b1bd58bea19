// Rows of results: as a table for people, as JSON for programs.
#pragma once
#include <nlohmann/json.hpp>

#include <string>
#include <vector>

#include "workloads.hpp"

namespace lathe::bench {

using Json = nlohmann::ordered_json;

struct PeerTime {
  std::string name;
  double seconds;
};

/// What the machine allows for a case, by its measured profile: the larger of arithmetic at the FMA peak and
/// compulsory traffic at the bandwidth of the innermost cache level that holds it all, or of main memory.
struct Limit {
  const char* kind; ///< "compute" or "bandwidth"
  double seconds;
};
Limit machine_limit(const Case& c, int threads);

struct Row {
  std::string workload, group;
  Sizes shape;
  DType dtype;
  std::string device;
  int threads = 1;
  bool tuned = false, verified = false;
  double max_error = 0;
  size_t kernels = 0;
  size_t ops = 0;           ///< stages that the kernels compute; 0: not counted
  int64_t arena_bytes = -1; ///< peak of intermediates; -1: not asked for
  double seconds = 0;
  double flops = 0, bytes = 0;
  Limit limit{"compute", 0};
  std::vector<PeerTime> peers;
  Json extra = Json::object(); ///< further fields of a command
};

Json to_json(const Row& row);
/// A table with one line a row, and a column for each peer that any row has.
std::string table(const std::vector<Row>& rows);
/// Three significant digits with a unit: "1.24 ms", "890 us".
std::string duration(double seconds);

} // namespace lathe::bench
