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
  std::string set, group, test; ///< set: the ONNX whose test it is

  std::set<OpName> ops;
  enum Outcome { Passed, Failed, Skipped } outcome;
};

void count(Counts& counts, Result::Outcome outcome);
/// A test counts for each op that occurs in its model. Of one set of tests, or of all for "".
std::map<OpName, Counts> by_op(const std::vector<Result>& results, const std::string& set);
/// By set and group.
std::map<std::pair<std::string, std::string>, Counts> by_group(const std::vector<Result>& results);

/// A set of tests that the page speaks of, whether or not this run had it.
struct KnownSet {
  std::string name;
  std::vector<std::string> groups;
  bool there;
};
/// What only a set that is not there can tell stands as `?`: in a cell of a table, or alone in a line for the
/// lines up to the next heading.
std::string page(const std::vector<Result>& results, const std::vector<KnownSet>& sets);
/// The first line in which a page differs from the expected one, whose `?` stand for anything; "" if none
/// does.
std::string page_difference(const std::string& page, const std::string& expected);

} // namespace lathe::conformance
