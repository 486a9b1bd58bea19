#include "compile/measure/checked_kernels.hpp"

#include <fmt/format.h>

#include "graph/node.hpp"
#include "lathe/error.hpp"

namespace lathe::pipeline {
namespace {

constexpr double kLimit = 10; // seconds; time limit of a kernel that the search did not measure

bool is_wrong(const search::Measurement& m) { return !m.ok && search::reason_of(m) == "wrong result"; }

[[noreturn]] void report(const search::Plan& plan, const search::KernelPlan& kernel, const std::string& what,
                         const std::string& error) {
  std::vector<graph::NodeRef> outputs;
  for (const lower::OutputBuffer& output : plan.program->outputs)
    outputs.push_back(plan.program->stages[static_cast<size_t>(output.stage)].node);
  std::string moves;
  for (const search::Move& move : plan.moves()) moves += "  " + to_string(move) + "\n";
  throw InternalError(fmt::format(
      "tune: a kernel of {} gives a {}\n\nThe program:\n{}\nIts moves:\n{}\nThe kernel:\n{}", what, error,
      graph::print(outputs), moves.empty() ? "  none\n" : moves, ast::print(kernel.kernel)));
}

} // namespace

void CheckedKernels::expect_right(const search::Plan& plan, const std::string& what) {
  for (const search::KernelPlanRef& kernel : plan.kernels)
    expected_.try_emplace(kernel->hash, Expected{plan, what});
}

search::Measure CheckedKernels::noting(search::Measure measure) {
  return [this, measure = std::move(measure)](const search::KernelPlanRef& kernel, double limit) {
    search::Measurement m = measure(kernel, limit);
    if (m.ok) right_.insert(kernel->hash);
    if (is_wrong(m))
      if (const auto at = expected_.find(kernel->hash); at != expected_.end())
        report(at->second.plan, *kernel, at->second.what, m.error);
    return m;
  };
}

void CheckedKernels::check(const search::Plan& plan, const std::string& what,
                           const std::function<search::Measure()>& make) {
  search::Measure measure;
  for (const search::KernelPlanRef& kernel : plan.kernels) {
    if (right_.contains(kernel->hash) || kernel->recurrence >= 0) continue;
    if (!measure) measure = make();
    const search::Measurement m = measure(kernel, kLimit);
    if (m.ok) right_.insert(kernel->hash);
    if (is_wrong(m)) report(plan, *kernel, what, m.error);
  }
}

} // namespace lathe::pipeline
