#include "conformance/onnx_page.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>

#include "conformance/onnx_exceptions.hpp"
#include "onnx/op_versions.hpp"
#include "onnx/registry.hpp"

namespace lathe::conformance {
namespace {

constexpr const char* kHead =
    R"(# ONNX ops

What `lathe::onnx::load` imports, and what ONNX's own tests say of it: those of ONNX 1.12, as Debian's package
`libonnx-testdata` has them, and the tests of nodes of ONNX 1.19.1, which `tools/onnx-tests` fetches. They run on
the default device. A test counts for each op that occurs in its model.
Attributes that are not supported, ops that are not listed, and all ops at an opset newer than their last
version serves are errors that name the node, the op and the opset; `lathe inspect` lists such ops of a model
all at once. No op is computed by the rules of another opset. Sparse initialisers are made dense; complex
numbers are not supported, and strings where ONNX has Resize, GridSample and Col2Im take them. An op that is
missing can be added without touching the library: see `include/lathe/onnx/op.hpp`.
Resize computes what ONNX's specification says also where ONNX Runtime does not: `align_corners` with scales that
make a fraction of a pixel, and `nearest` exactly between two.

This page is written by a run of the tests, and a test checks it against the next run:

    tools/onnx-tests build/onnx-tests
    build/release/tests/onnx_suite --newer build/onnx-tests/1.19.1 --page docs/onnx.md

)";

std::string domain_name(const std::string& domain) { return domain.empty() ? "ai.onnx" : domain; }

std::string status(const Counts& counts) {
  if (counts.failed > 0) return "in part";
  return counts.passed > 0 ? "yes" : "yes, but no test of the suite shows it";
}

std::string cells(const Counts& c, bool known) {
  return known ? fmt::format(" {} | {} | {} |", c.passed, c.failed, c.skipped) : " ? | ? | ? |";
}

void add_groups(std::string& text, const std::vector<Result>& results, const std::vector<KnownSet>& sets) {
  text += "## The tests\n\n| ONNX | group | passed | failed | skipped |\n|---|---|---|---|---|\n";
  const auto counts = by_group(results);
  for (const KnownSet& set : sets) {
    for (const std::string& group : set.groups) {
      const auto found = counts.find({set.name, group});
      text += fmt::format("| {} | {} |{}\n", set.name, group,
                          cells(found == counts.end() ? Counts() : found->second, set.there));
    }
  }
}

void add_exceptions(std::string& text, const std::vector<Result>& results,
                    const std::vector<KnownSet>& sets) {
  text += "\nNo other test is left out or compared in part:\n\n| tests |";
  for (const KnownSet& set : sets) text += fmt::format(" of {} |", set.name);
  text += " what is done | why |\n|---|";
  for (size_t k = 0; k < sets.size(); ++k) text += "---|";
  text += "---|---|\n";
  for (const Exception& exception : kExceptions) {
    text += fmt::format("| `{}` |", exception.pattern);
    for (const KnownSet& set : sets) {
      const auto tests = std::count_if(results.begin(), results.end(), [&](const Result& result) {
        return result.set == set.name && exception_for(result.set, result.test) == &exception;
      });
      text += set.there ? fmt::format(" {} |", tests) : " ? |";
    }
    text += fmt::format(" {} | {} |\n",
                        exception.treatment == Treatment::Skip ? "skipped" : "dtypes and shapes compared",
                        exception.reason);
  }
}

/// Whether ONNX's tests have ops of the domain.
bool is_of_onnx(const std::string& domain) { return domain.empty() || domain.starts_with("ai.onnx"); }

void begin_ops(std::string& text, const std::string& domain, const std::vector<KnownSet>& sets) {
  text += fmt::format(
      "\n## Ops of {}\n\n\"Versions\": the opsets that brought a version of the op. Each serves up to the "
      "next, the last up to opset {}.",
      domain_name(domain), onnx::newest_opset(domain));
  if (!is_of_onnx(domain)) {
    text +=
        "\nThe sets have none of them: `tests/conformance/onnx_runtime.py` compares them with ONNX Runtime."
        "\n\n| op | versions |\n|---|---|\n";
    return;
  }
  text += "\n\n| op | versions | supported |";
  for (const KnownSet& set : sets) text += fmt::format(" {}: passed | failed | skipped |", set.name);
  text += "\n|---|---|---|";
  for (size_t k = 0; k < 3 * sets.size(); ++k) text += "---|";
  text += "\n";
}

void add_ops(std::string& text, const std::vector<Result>& results, const std::vector<KnownSet>& sets) {
  const bool all_there = std::all_of(sets.begin(), sets.end(), [](const KnownSet& set) { return set.there; });
  const std::map<OpName, Counts> together = by_op(results, "");
  std::vector<std::map<OpName, Counts>> counts;
  for (const KnownSet& set : sets) counts.push_back(by_op(results, set.name));
  std::string domain = "none yet";
  for (const onnx::RegisteredOp& op : onnx::registered_ops()) {
    if (op.domain != domain) begin_ops(text, domain = op.domain, sets);
    if (!is_of_onnx(domain)) {
      text += fmt::format("| {} | {} |\n", op.name, fmt::join(op.since, ", "));
      continue;
    }
    const OpName name{op.domain, op.name};
    const auto found = together.find(name);
    text += fmt::format("| {} | {} | {} |", op.name, fmt::join(op.since, ", "),
                        all_there ? status(found == together.end() ? Counts() : found->second) : "?");
    for (size_t k = 0; k < sets.size(); ++k) text += cells(counts[k][name], sets[k].there);
    text += "\n";
    for (auto& of_set : counts) of_set.erase(name);
  }
  for (size_t k = 0; k < sets.size(); ++k) {
    text += fmt::format("\n## Ops of the tests of ONNX {} that are not supported\n\n", sets[k].name);
    if (!sets[k].there) {
      text += "?\n";
      continue;
    }
    text += "| op | domain | tests skipped | tests failed |\n|---|---|---|---|\n";
    for (const auto& [op, c] : counts[k])
      text += fmt::format("| {} | {} | {} | {} |\n", op.second, domain_name(op.first), c.skipped, c.failed);
  }
}

std::vector<std::string> split(const std::string& text, char at) {
  std::vector<std::string> parts;
  std::istringstream in(text);
  for (std::string part; std::getline(in, part, at);) parts.push_back(part);
  return parts;
}

/// Whether a row is the expected one, whose cells of `?` stand for anything.
bool same_line(const std::string& line, const std::string& expected) {
  const std::vector<std::string> cells = split(line, '|'), wanted = split(expected, '|');
  return std::equal(cells.begin(), cells.end(), wanted.begin(), wanted.end(),
                    [](const std::string& a, const std::string& b) { return b == " ? " || a == b; });
}

} // namespace

void count(Counts& counts, Result::Outcome outcome) {
  ++(outcome == Result::Passed ? counts.passed : outcome == Result::Failed ? counts.failed : counts.skipped);
}

std::map<OpName, Counts> by_op(const std::vector<Result>& results, const std::string& set) {
  std::map<OpName, Counts> counts;
  for (const Result& result : results)
    if (set.empty() || result.set == set)
      for (const OpName& op : result.ops) count(counts[op], result.outcome);
  return counts;
}

std::map<std::pair<std::string, std::string>, Counts> by_group(const std::vector<Result>& results) {
  std::map<std::pair<std::string, std::string>, Counts> counts;
  for (const Result& result : results) count(counts[{result.set, result.group}], result.outcome);
  return counts;
}

std::string page(const std::vector<Result>& results, const std::vector<KnownSet>& sets) {
  std::string text = kHead;
  add_groups(text, results, sets);
  add_exceptions(text, results, sets);
  add_ops(text, results, sets);
  return text;
}

std::string page_difference(const std::string& page, const std::string& expected) {
  const std::vector<std::string> lines = split(page, '\n'), wanted = split(expected, '\n');
  size_t at = 0;
  for (const std::string& line : wanted) {
    if (line == "?") {
      while (at < lines.size() && lines[at].rfind("## ", 0) != 0) ++at;
      if (at < lines.size()) --at; // the empty line before the heading
      continue;
    }
    if (at == lines.size() || !same_line(lines[at], line))
      return fmt::format("line {} should be: {}", at + 1, line);
    ++at;
  }
  return at == lines.size() ? "" : fmt::format("line {} is too much", at + 1);
}

} // namespace lathe::conformance
