#include "compile/run/kernel_limit.hpp"

#include <algorithm>
#include <map>

#include "compile/front/shape_values.hpp"
#include "compile/run/debug_output.hpp"
#include "graph/scan.hpp"
#include "search/cost/features.hpp"

namespace lathe::pipeline {
namespace {

bool steps_depend_on_data(const search::KernelPlan& kernel, const lower::Program& program) {
  if (kernel.recurrence < 0) return false;
  const lower::Recurrence& recurrence = program.recurrences[static_cast<size_t>(kernel.recurrence)];
  return std::get<graph::ScanAttr>(recurrence.node->attr).body->when.has_value();
}

/// Bytes that the kernel moves of each buffer at most: no more than it accesses elements, and no more than
/// the buffer has. A gather reads a few rows of a large table.
std::map<const ast::Buffer*, double> bytes_moved(const ast::Kernel& kernel) {
  std::map<const ast::Buffer*, double> bytes;
  const auto access = [&](const ast::Buffer& buffer, double times) {
    bytes[&buffer] += times * size_of(buffer.dtype);
  };
  ast::visit(kernel.body, [&](const ast::Stmt& stmt, const auto& loops) {
    const auto* store = std::get_if<ast::Store>(&stmt.node);
    if (!store) return;
    double times = 1;
    for (const ast::For* loop : loops) times *= std::max(1.0, search::estimate(loop->extent));
    access(*store->buffer, times);
    const auto see = [&](const ast::ValueRef& value) {
      if (const auto* load = std::get_if<ast::LoadAttr>(&value->attr)) access(*load->buffer, times);
    };
    ast::visit(store->value, see);
    if (store->scatter) ast::visit(store->scatter, see);
  });
  for (auto& [buffer, moved] : bytes) moved = std::min(moved, static_cast<double>(largest_bytes(*buffer)));
  return bytes;
}

} // namespace

std::optional<KernelLimit> limit_of(const Kernel::Impl& kernel, const lower::Program& program) {
  if (!kernel.shape_vars.empty() || steps_depend_on_data(*kernel.plan, program)) return {};
  search::CompulsoryTraffic traffic;
  int width = 4;
  const std::map<const ast::Buffer*, double> moved = bytes_moved(kernel.plan->kernel);
  for (const ast::Param& param : kernel.plan->kernel.params) {
    const auto bytes = moved.find(param.buffer.get()); // a recurrence has no statements
    (param.written ? traffic.written : traffic.read) +=
        bytes != moved.end() ? bytes->second : static_cast<double>(largest_bytes(*param.buffer));
    if (is_float(param.buffer->dtype)) width = std::max(width, size_of(param.buffer->dtype));
  }
  const double flops = arithmetic_ops(*kernel.plan, program, {}, {});
  return KernelLimit{
      flops, traffic.read + traffic.written,
      search::machine_limit(search::machine_profile(), kernel.flags.threads, width, flops, traffic)};
}

} // namespace lathe::pipeline
