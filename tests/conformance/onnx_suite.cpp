// The ONNX project's backend tests on a device: prints the tests that fail, and how many passed, failed and
// were skipped.
//
//   onnx_suite [--data FOLDER] [--newer FOLDER] [--device D] [--filter TEXT] [--with OP] [--every N] [--ops]
//              [--page FILE] [--expect FILE] [--save FOLDER] [--load FOLDER]
//
// --data: the tests of ONNX 1.12, as Debian's libonnx-testdata has them, or those that ONNX_TEST_DATA names.
// --newer: the tests of nodes of ONNX 1.19.1, as tools/onnx-tests fetches them; none by default.
// --with takes tests with one of these ops only, --every each Nth of them. --save leaves the programs there,
// and
// --load runs those that an earlier run left, instead of compiling the models. --ops counts by op. --page
// writes docs/onnx.md, --expect compares the file with what --page would write, but for what it says of tests
// that are not there. Exits with 1 if a test fails or the page differs, and with 77 if no tests are there.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include <CLI/CLI.hpp>

#include "conformance/onnx_exceptions.hpp"
#include "conformance/onnx_page.hpp"
#include "lathe/onnx.hpp"

namespace fs = std::filesystem;
using namespace lathe::conformance;

namespace {

constexpr int kNotThere = 77;

struct Options {
  std::string data = "/usr/share/libonnx-testdata/data", newer, device = lathe::default_device(), filter,
              page, expect;
  std::vector<std::string> with;
  SavedPrograms saved;
  size_t every = 1;
  bool ops = false;

  bool takes(const fs::path& test) const {
    if (test.filename().string().find(filter) == std::string::npos) return false;
    const std::set<OpName> ops_here = with.empty() ? std::set<OpName>() : ops_of(test);
    return with.empty() || std::any_of(with.begin(), with.end(),
                                       [&](const std::string& op) { return ops_here.count({"", op}) > 0; });
  }
};

/// The tests of one release of ONNX: where they are, and which groups of them are run.
struct TestSet {
  std::string name;
  fs::path folder;
  std::vector<std::string> groups;
};

std::vector<TestSet> test_sets(const Options& options) {
  return {{"1.12", options.data, {"node", "simple", "pytorch-operator", "pytorch-converted"}},
          {"1.19.1", options.newer, {"node"}}};
}

std::vector<KnownSet> known_sets(const Options& options) {
  std::vector<KnownSet> known;
  for (const TestSet& set : test_sets(options))
    known.push_back({set.name, set.groups, fs::exists(set.folder)});
  return known;
}

/// Programs of tests that bear one name are kept apart.
SavedPrograms saved_for(const SavedPrograms& saved, const std::string& set) {
  SavedPrograms folders = saved;
  for (fs::path* folder : {&folders.save, &folders.load})
    if (!folder->empty()) *folder /= set;
  if (!folders.save.empty()) fs::create_directories(folders.save);
  return folders;
}

Result run(const std::string& set, const std::string& group, const fs::path& test, const Options& options) {
  Result result{set, group, test.filename().string(), ops_of(test), Result::Skipped};
  const Exception* exception = exception_for(set, result.test);
  if (exception && exception->treatment == Treatment::Skip) return result;
  const std::string why = run_test(test, options.device, exception != nullptr, saved_for(options.saved, set));
  result.outcome = why.empty() ? Result::Passed : Result::Failed;
  if (!why.empty()) fmt::print("FAILED {} {}/{}: {}\n", set, group, result.test, why);
  std::fflush(stdout);
  return result;
}

std::vector<Result> run_all(const Options& options) {
  std::vector<Result> results;
  size_t position = 0;
  for (const TestSet& set : test_sets(options)) {
    if (!fs::exists(set.folder)) continue;
    for (const std::string& group : set.groups) {
      std::vector<fs::path> tests;
      for (const auto& entry : fs::directory_iterator(set.folder / group)) tests.push_back(entry.path());
      std::sort(tests.begin(), tests.end());
      for (const fs::path& test : tests)
        if (options.takes(test) && position++ % options.every == 0)
          results.push_back(run(set.name, group, test, options));
    }
  }
  return results;
}

bool page_is_current(const std::string& file, const std::string& expected) {
  std::ostringstream written;
  written << std::ifstream(file).rdbuf();
  const std::string why = page_difference(written.str(), expected);
  if (!why.empty())
    fmt::print("{} is not what this run gives: {}; --page {} writes it anew\n", file, why, file);
  return why.empty();
}

/// Says which tests are not there; false if none are.
bool have_tests(const Options& options) {
  bool some = false;
  for (const KnownSet& set : known_sets(options)) {
    some |= set.there;
    if (!set.there)
      fmt::print("skipped: the tests of ONNX {} are not there; {}\n", set.name,
                 set.name == "1.12" ? "Debian has them in libonnx-testdata"
                                    : "tools/onnx-tests fetches them");
  }
  return some;
}

bool exists(const std::string& device) {
  const std::vector<lathe::DeviceInfo> devices = lathe::devices();
  return std::any_of(devices.begin(), devices.end(),
                     [&](const lathe::DeviceInfo& info) { return info.name == device; });
}

} // namespace

int main(int argc, char** argv) {
  Options options;
  if (const char* data = std::getenv("ONNX_TEST_DATA")) options.data = data;
  CLI::App app("onnx_suite: ONNX's own tests");
  app.add_option("--data", options.data)->capture_default_str();
  app.add_option("--newer", options.newer);
  app.add_option("--device", options.device)->capture_default_str();
  app.add_option("--filter", options.filter, "part of the names of the tests to run");
  app.add_option("--with", options.with, "ops")->allow_extra_args(false);
  app.add_option("--save", options.saved.save)->check(CLI::ExistingDirectory);
  app.add_option("--load", options.saved.load)->check(CLI::ExistingDirectory);
  app.add_option("--every", options.every)->check(CLI::PositiveNumber);
  app.add_flag("--ops", options.ops);
  app.add_option("--page", options.page);
  app.add_option("--expect", options.expect);
  CLI11_PARSE(app, argc, argv);
  if (!have_tests(options)) return kNotThere;
  if (!exists(options.device)) {
    fmt::print("skipped: there is no device {} here\n", options.device);
    return kNotThere;
  }
  lathe::set_default_device(options.device);

  const auto begin = std::chrono::steady_clock::now();
  const std::vector<Result> results = run_all(options);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  if (options.ops)
    for (const auto& [op, c] : by_op(results, ""))
      fmt::print("{}{}{}: {} passed, {} failed, {} skipped\n", op.first, op.first.empty() ? "" : ".",
                 op.second, c.passed, c.failed, c.skipped);
  int failed = 0;
  for (const auto& [group, c] : by_group(results)) {
    fmt::print("{} {}: {} passed, {} failed, {} skipped\n", group.first, group.second, c.passed, c.failed,
               c.skipped);
    failed += c.failed;
  }
  fmt::print("{} device, {:.1f} s\n", options.device, seconds);
  const std::string text = page(results, known_sets(options));
  if (!options.page.empty()) std::ofstream(options.page) << text;
  const bool current = options.expect.empty() || page_is_current(options.expect, text);
  return failed == 0 && current ? 0 : 1;
}
