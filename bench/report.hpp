// Rows of results: as a table for people, as JSON for programs.
#pragma once
#include <nlohmann/json.hpp>

#include <string>
#include <vector>

#include "cli/duration.hpp"
#include "search/machine/profile.hpp"
#include "workloads.hpp"

namespace lathe::bench {

using Json = nlohmann::ordered_json;

struct PeerTime {
  std::string name;
  double seconds;
};

struct Row {
  std::string workload, group;
  Sizes shape;
  std::string dtype; ///< "f32", "q4_k"
  std::string device;
  int threads = 1;
  bool tuned = false, verified = false;
  double max_error = 0;
  size_t kernels = 0;
  size_t ops = 0;           ///< stages that the kernels compute; 0: not counted
  int64_t arena_bytes = -1; ///< peak of intermediates; -1: not asked for
  double seconds = 0;
  double flops = 0, bytes = 0;
  search::Limit limit{"compute", 0};
  std::vector<PeerTime> peers;
  Json extra = Json::object(); ///< further fields of a command
};

Json to_json(const Row& row);
/// A table with one line a row, and a column for each peer that any row has.
std::string table(const std::vector<Row>& rows);
using cli::duration;

} // namespace lathe::bench
