// docs/onnx.md: every op of the importer with what the suite says of it.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "conformance/onnx_case.hpp"

namespace lathe::conformance {

struct Counts {
  int passed = 0, failed = 0, skipped = 0;
};

struct Result {
  std::string group, test;
  std::set<OpName> ops;
  enum Outcome { Passed, Failed, Skipped } outcome;
};

void count(Counts& counts, Result::Outcome outcome);
/// A test counts for each op that occurs in its model.
std::map<OpName, Counts> by_op(const std::vector<Result>& results);
std::map<std::string, Counts> by_group(const std::vector<Result>& results);

std::string page(const std::vector<Result>& results);

} // namespace lathe::conformance
