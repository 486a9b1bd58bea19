#include "conformance/onnx_page.hpp"

#include <fmt/format.h>

#include "conformance/onnx_exceptions.hpp"
#include "onnx/op_versions.hpp"
#include "onnx/registry.hpp"

namespace lathe::conformance {
namespace {

constexpr const char* kHead =
    R"(# ONNX ops

What `lathe::onnx::load` imports, and what ONNX's own tests say of it: those of ONNX 1.12, as Debian's package
`libonnx-testdata` has them, run on the default device. A test counts for each op that occurs in its model.
Attributes that are not supported, ops that are not listed, and all ops at an opset newer than their last
version serves are errors that name the node, the op and the opset; `lathe inspect` lists such ops of a model
all at once. No op is computed by the rules of another opset. Strings, complex numbers and sparse tensors are
not supported. An op that is missing can be added without touching the library: see
`include/lathe/onnx/op.hpp`.

This page is written by a run of the tests, and a test checks it against the next run:

    build/release/tests/onnx_suite --page docs/onnx.md

)";

std::string domain_name(const std::string& domain) { return domain.empty() ? "ai.onnx" : domain; }

std::string status(const Counts& counts) {
  if (counts.failed > 0) return "in part";
  return counts.passed > 0 ? "yes" : "yes, but no test of the suite shows it";
}

void add_groups(std::string& text, const std::vector<Result>& results) {
  text += "## The tests\n\n| group | passed | failed | skipped |\n|---|---|---|---|\n";
  for (const auto& [group, c] : by_group(results))
    text += fmt::format("| {} | {} | {} | {} |\n", group, c.passed, c.failed, c.skipped);
}

void add_exceptions(std::string& text, const std::vector<Result>& results) {
  text += "\nNo other test is left out or compared in part:\n\n| tests | how many | what is done | why "
          "|\n|---|---|---|---|\n";
  for (const Exception& exception : kExceptions) {
    int tests = 0;
    for (const Result& result : results) tests += exception_for(result.test) == &exception;
    text += fmt::format("| `{}` | {} | {} | {} |\n", exception.pattern, tests,
                        exception.treatment == Treatment::Skip ? "skipped" : "dtypes and shapes compared",
                        exception.reason);
  }
}

void add_ops(std::string& text, const std::vector<Result>& results) {
  std::map<OpName, Counts> counts = by_op(results);
  std::string domain = "none yet";
  for (const onnx::RegisteredOp& op : onnx::registered_ops()) {
    if (op.domain != domain) {
      domain = op.domain;
      text += fmt::format(
          "\n## Ops of {}\n\n\"Versions\": the opsets that brought a version of the op. Each serves up to "
          "the "
          "next, the last up to opset {}.\n\n| op | versions | supported | passed | failed | skipped "
          "|\n|---|---|---|---|---|---|\n",
          domain_name(domain), onnx::newest_opset(domain));
    }
    const Counts c = counts[{op.domain, op.name}];
    counts.erase({op.domain, op.name});
    text += fmt::format("| {} | {} | {} | {} | {} | {} |\n", op.name, fmt::join(op.since, ", "), status(c),
                        c.passed, c.failed, c.skipped);
  }
  text += "\n## Ops of the suite that are not supported\n\n| op | domain | tests skipped | tests failed "
          "|\n|---|---|---|---|\n";
  for (const auto& [op, c] : counts)
    text += fmt::format("| {} | {} | {} | {} |\n", op.second, domain_name(op.first), c.skipped, c.failed);
}

} // namespace

void count(Counts& counts, Result::Outcome outcome) {
  ++(outcome == Result::Passed ? counts.passed : outcome == Result::Failed ? counts.failed : counts.skipped);
}

std::map<OpName, Counts> by_op(const std::vector<Result>& results) {
  std::map<OpName, Counts> counts;
  for (const Result& result : results)
    for (const OpName& op : result.ops) count(counts[op], result.outcome);
  return counts;
}

std::map<std::string, Counts> by_group(const std::vector<Result>& results) {
  std::map<std::string, Counts> counts;
  for (const Result& result : results) count(counts[result.group], result.outcome);
  return counts;
}

std::string page(const std::vector<Result>& results) {
  std::string text = kHead;
  add_groups(text, results);
  add_exceptions(text, results);
  add_ops(text, results);
  return text;
}

} // namespace lathe::conformance
