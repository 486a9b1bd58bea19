#include "compile/run/debug_output.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fmt/format.h>
#include <functional>

#include "compile/run/recurrence.hpp"
#include "core/debug.hpp"
#include "graph/scan.hpp"
#include "lathe/detail/instruction_timer.hpp"
#include "search/machine/profile.hpp"
#include "search/moves/plan.hpp"

namespace lathe::pipeline {
namespace {

double ops_in(const ast::Store& store) {
  double ops = store.combine ? 1 : 0;
  ast::visit(store.value, [&](const ast::ValueRef& v) {
    const bool moves = v->op == Op::Cast || v->op == Op::Bitcast || v->op == Op::Where;
    if (is_elementwise(v->op) && !moves) ops += v->op == Op::Fma ? 2 : 1;
  });
  return ops;
}

using ValueOf = std::function<int64_t(Expr)>;

double ops_in(const lower::Stage& stage, const ValueOf& value_of) {
  double total = 0;
  ast::visit(stage.nests, [&](const ast::Stmt& stmt, const std::vector<const ast::For*>& loops) {
    const auto* store = std::get_if<ast::Store>(&stmt.node);
    if (!store) return;
    double ops = ops_in(*store);
    for (const ast::For* loop : loops) ops *= static_cast<double>(evaluate(loop->extent, value_of));
    total += ops;
  });
  return total;
}

/// Of all steps, or of so many.
double ops_in(const lower::Recurrence& recurrence, const ValueOf& value_of,
              std::optional<int64_t> steps = {}) {
  double step = 0;
  for (const lower::Stage& stage : recurrence.body->stages) step += ops_in(stage, value_of);
  for (const lower::Recurrence& inside : recurrence.body->recurrences) step += ops_in(inside, value_of);
  const auto& attr = std::get<graph::ScanAttr>(recurrence.node->attr);
  return step * static_cast<double>(steps ? *steps : evaluate(graph::typical_steps(attr), value_of));
}

} // namespace

double arithmetic_ops(const search::KernelPlan& kernel, const lower::Program& program,
                      const std::vector<Expr>& vars, std::span<const int64_t> values,
                      std::optional<int64_t> steps) {
  const auto value_of = [&](Expr var) -> int64_t {
    for (size_t k = 0; k < vars.size(); ++k)
      if (vars[k].name() == var.name()) return values[k];
    return var.lo();
  };
  if (kernel.recurrence >= 0)
    return ops_in(program.recurrences[static_cast<size_t>(kernel.recurrence)], value_of, steps);
  double total = 0;
  for (const auto* stages : {&kernel.stages, &kernel.inlined})
    for (const int stage : *stages) total += ops_in(program.stages[static_cast<size_t>(stage)], value_of);
  return total;
}

LaunchTime timed_launch(const Kernel::Impl& kernel, const lower::Program& program, runtime::Device& device,
                        std::span<const runtime::BufferSlice> slices, std::span<const int64_t> shape_values) {
  device.finish();
  LaunchTime launch{.kernel = kernel.name};
  if (const Profile* profile = detail::Recorder::current()) launch.start = profile->now();
  const auto start = std::chrono::steady_clock::now();
  std::optional<int64_t> steps;
  if (const auto* recurrence = dynamic_cast<const RecurrenceProgram*>(kernel.program.get()))
    steps = recurrence->run(slices, shape_values);
  else
    kernel.program->launch(slices, shape_values);
  device.finish();
  launch.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  search::CompulsoryTraffic traffic;
  int width = 4;
  for (size_t p = 0; p < slices.size(); ++p) {
    (kernel.params[p].written ? traffic.written : traffic.read) += static_cast<double>(slices[p].bytes);
    if (is_float(kernel.params[p].dtype)) width = std::max(width, size_of(kernel.params[p].dtype));
  }
  launch.bytes = traffic.read + traffic.written;
  launch.flops = arithmetic_ops(*kernel.plan, program, kernel.shape_vars, shape_values, steps);
  launch.limit_seconds =
      search::machine_limit(search::machine_profile(), kernel.flags.threads, width, launch.flops, traffic)
          .seconds;
  return launch;
}

void report_launch(const LaunchTime& launch) {
  fmt::print(stderr, "lathe: {:<24} {:10.3f} us {:9.2f} GFLOP/s {:8.2f} GB/s\n", launch.kernel,
             launch.seconds * 1e6, launch.flops / launch.seconds * 1e-9,
             launch.bytes / launch.seconds * 1e-9);
}

void report_kernel(const Kernel::Impl& kernel) {
  if (debug_level() >= 2) {
    std::string moves;
    for (const search::Move& move : kernel.plan->moves) moves += "  " + to_string(move) + "\n";
    fmt::print(stderr, "lathe: schedule of {}\n{}{}\n", kernel.name, moves, ast::print(kernel.plan->kernel));
  }
  if (debug_level() >= 3) fmt::print(stderr, "lathe: source of {}\n{}\n", kernel.name, kernel.source());
}

} // namespace lathe::pipeline
