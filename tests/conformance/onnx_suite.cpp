// The ONNX project's backend tests on a device: prints the tests that fail, and how many passed, failed and
// were skipped.
//
//   onnx_suite [--data FOLDER] [--device D] [--filter TEXT] [--with OP] [--every N] [--ops] [--page FILE]
//              [--expect FILE] [--save FOLDER] [--load FOLDER]
//
// --with takes tests with one of these ops only, --every each Nth of them. --save leaves the programs there,
// and
// --load runs those that an earlier run left, instead of compiling the models. --ops counts by op. --page
// writes docs/onnx.md, --expect compares the file with what --page would write. Exits with 1 if a test fails
// or the page differs, and with 77 if the data is not there: Debian's libonnx-testdata, or the folder that
// ONNX_TEST_DATA names.
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
  std::string data = "/usr/share/libonnx-testdata/data", device = lathe::default_device(), filter, page,
              expect;
  std::vector<std::string> with;
  SavedPrograms saved;
  size_t every = 1;
  bool ops = false;

  bool takes(const fs::path& test) const {
    if (test.filename().string().find(filter) == std::string::npos) return false;
    const std::set<OpName> ops_here = with.empty() ? std::set<OpName>() : ops_of(test);
    return with.empty() || std::any_of(with.begin(), with.end(), [&](const std::string& op) {
             return ops_here.count({"", op}) > 0;
           });
  }
};

Result run(const std::string& group, const fs::path& test, const Options& options) {
  Result result{group, test.filename().string(), ops_of(test), Result::Skipped};
  if (const Exception* exception = exception_for(result.test);
      exception && exception->treatment == Treatment::Skip)
    return result;
  const std::string why = run_test(test, options.device, options.saved);
  result.outcome = why.empty() ? Result::Passed : Result::Failed;
  if (!why.empty()) fmt::print("FAILED {}/{}: {}\n", group, result.test, why);
  std::fflush(stdout);
  return result;
}

std::vector<Result> run_all(const Options& options) {
  std::vector<Result> results;
  size_t position = 0;
  for (const std::string group : {"node", "simple", "pytorch-operator", "pytorch-converted"}) {
    std::vector<fs::path> tests;
    for (const auto& entry : fs::directory_iterator(fs::path(options.data) / group))
      tests.push_back(entry.path());
    std::sort(tests.begin(), tests.end());
    for (const fs::path& test : tests)
      if (options.takes(test) && position++ % options.every == 0)
        results.push_back(run(group, test, options));
  }
  return results;
}

bool page_is_current(const std::string& file, const std::vector<Result>& results) {
  std::ostringstream written;
  written << std::ifstream(file).rdbuf();
  if (written.str() == page(results)) return true;
  fmt::print("{} is not what this run gives; --page {} writes it anew\n", file, file);
  return false;
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
  if (!fs::exists(options.data)) {
    fmt::print("skipped: ONNX's tests are not in {}; Debian has them in libonnx-testdata\n", options.data);
    return kNotThere;
  }
  if (!exists(options.device)) {
    fmt::print("skipped: there is no device {} here\n", options.device);
    return kNotThere;
  }
  lathe::set_default_device(options.device);

  const auto begin = std::chrono::steady_clock::now();
  const std::vector<Result> results = run_all(options);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  if (options.ops)
    for (const auto& [op, c] : by_op(results))
      fmt::print("{}{}{}: {} passed, {} failed, {} skipped\n", op.first, op.first.empty() ? "" : ".",
                 op.second, c.passed, c.failed, c.skipped);
  int failed = 0;
  for (const auto& [group, c] : by_group(results)) {
    fmt::print("{}: {} passed, {} failed, {} skipped\n", group, c.passed, c.failed, c.skipped);
    failed += c.failed;
  }
  fmt::print("{} device, {:.1f} s\n", options.device, seconds);
  if (!options.page.empty()) std::ofstream(options.page) << page(results);
  const bool current = options.expect.empty() || page_is_current(options.expect, results);
  return failed == 0 && current ? 0 : 1;
}
