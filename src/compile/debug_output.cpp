#include "compile/debug_output.hpp"

#include <chrono>
#include <cstdio>
#include <fmt/format.h>

#include "core/debug.hpp"

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

} // namespace

double arithmetic_ops(const search::KernelPlan& kernel, const lower::Program& program,
                      const std::vector<Expr>& vars, std::span<const int64_t> values) {
  const auto value_of = [&](Expr var) -> int64_t {
    for (size_t k = 0; k < vars.size(); ++k)
      if (vars[k] == var) return values[k];
    return var.lo();
  };
  double total = 0;
  const auto count = [&](int stage) {
    ast::visit(program.stages[static_cast<size_t>(stage)].nests,
               [&](const ast::Stmt& stmt, const std::vector<const ast::For*>& loops) {
                 const auto* store = std::get_if<ast::Store>(&stmt.node);
                 if (!store) return;
                 double ops = ops_in(*store);
                 for (const ast::For* loop : loops)
                   ops *= static_cast<double>(evaluate(loop->extent, value_of));
                 total += ops;
               });
  };
  for (const int stage : kernel.stages) count(stage);
  for (const int stage : kernel.inlined) count(stage);
  return total;
}

void launch_with_report(const Kernel::Impl& kernel, const lower::Program& program, runtime::Device& device,
                        std::span<const runtime::BufferSlice> slices, std::span<const int64_t> shape_values) {
  device.finish();
  const auto start = std::chrono::steady_clock::now();
  kernel.program->launch(slices, shape_values);
  device.finish();
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  double bytes = 0;
  for (const runtime::BufferSlice& slice : slices) bytes += static_cast<double>(slice.bytes);
  const double ops = arithmetic_ops(*kernel.plan, program, kernel.shape_vars, shape_values);
  fmt::print(stderr, "lathe: {:<24} {:10.3f} us {:9.2f} GFLOP/s {:8.2f} GB/s\n", kernel.name, seconds * 1e6,
             ops / seconds * 1e-9, bytes / seconds * 1e-9);
}

void report_kernel(const Kernel::Impl& kernel) {
  if (debug_level() >= 2) {
    std::string moves;
    for (const search::Move& move : kernel.plan->moves) moves += "  " + to_string(move) + "\n";
    fmt::print(stderr, "lathe: schedule of {}\n{}{}\n", kernel.name, moves, ast::print(kernel.plan->kernel));
  }
  if (debug_level() >= 3)
    fmt::print(stderr, "lathe: source of {}\n{}\n", kernel.name, kernel.program->source());
}

} // namespace lathe::pipeline
