// Programs as text: source for the targets, or an earlier form (graph, loop AST, moves).
#include <algorithm>
#include <iterator>
#include <sstream>

#include <fmt/format.h>

#include "compile/export/emit_c.hpp"
#include "compile/front/front.hpp"
#include "compile/front/target.hpp"
#include "compile/realise.hpp"
#include "compile/run/finalise.hpp"
#include "compile/schedule.hpp"
#include "graph/narrow.hpp"
#include "lathe/detail/access.hpp"
#include "lathe/error.hpp"
#include "render/c_names.hpp"
#include "render/render.hpp"
#include "runtime/llvm_backend.hpp"

namespace lathe {
namespace pipeline {

namespace {

[[noreturn]] void unknown_target(const std::string& target) {
  throw Error(
      ErrorKind::Name,
      fmt::format("emit: target \"{}\" is unknown, expected c, opencl, cuda, llvm, asm, ast, graph, dot or "
                  "moves",
                  target));
}

std::string emit_kernel(const ast::Kernel& finalised, const std::string& target,
                        const CompileOptions& options) {
  const runtime::CompileFlags flags{thread_count(options), options.cpu, false};
  if (target == "llvm") return runtime::llvm_backend().ir_text(finalised, flags);
  if (target == "asm") return runtime::llvm_backend().assembly(finalised, flags);
  unknown_target(target);
}

std::string emit_nodes(const std::vector<lower::NamedOutput>& outputs, const std::string& target) {
  std::vector<graph::NodeRef> nodes;
  for (const lower::NamedOutput& output : outputs) nodes.push_back(output.node);
  return target == "dot" ? graph::to_graphviz(nodes) : graph::print(nodes);
}

/// Returns comments: the functions of a kernel on a device with work-groups, and the groups of each.
std::string grid_notes(const render::GridSource& source, const char* comment) {
  std::string out;
  const auto sizes = [](const Expr(&of)[3]) {
    return fmt::format("{} x {} x {}", to_string(of[0]), to_string(of[1]), to_string(of[2]));
  };
  for (size_t f = 0; f < source.functions.size(); ++f) {
    const render::GridLaunch& launch = source.launches[f];
    Expr groups[3];
    for (int axis = 0; axis < 3; ++axis) groups[axis] = floordiv(launch.global[axis], launch.local[axis]);
    out += fmt::format("{}   {}: {} groups of {}\n", comment, source.functions[f], sizes(groups),
                       sizes(launch.local));
  }
  for (const render::GridSource::Temporary& t : source.temporaries)
    out += fmt::format("{}   a temporary of {} bytes\n", comment, t.bytes);
  return out;
}

/// Returns comments: the launches in order, with their parameters. `sources`: of each kernel, on a device
/// with work-groups.
std::string launch_notes(const search::Plan& plan, const char* comment,
                         const std::vector<render::GridSource>& sources = {}) {
  std::string out;
  for (size_t k = 0; k < plan.kernels.size(); ++k) {
    const search::KernelPlanRef& kernel = plan.kernels[k];
    std::string params;
    for (const ast::Param& p : kernel->kernel.params)
      params += fmt::format("{}{}{} {}{}", params.empty() ? "" : ", ", p.written ? "" : "const ",
                            to_string(p.buffer->dtype), p.buffer->name, to_string(p.buffer->shape));
    for (const ast::Kernel& fill : kernel->constants) {
      out += fmt::format("{} once, before the first launch:\n", comment);
      std::istringstream lines(ast::print(fill));
      for (std::string line; std::getline(lines, line);) out += fmt::format("{}   {}\n", comment, line);
    }
    out += fmt::format("{} launch {}({})\n", comment, kernel->kernel.name, params);
    if (!sources.empty()) out += grid_notes(sources[k], comment);
  }
  if (!sources.empty())
    out += fmt::format(
        "{} After these a function takes its temporaries, the shape variables, and for each buffer of the "
        "first list the element at which it begins.\n",
        comment);
  for (const lower::OutputBuffer& output : plan.program->outputs)
    out += fmt::format("{} output {} is {}\n", comment, in_comment(output.name),
                       plan.program->stages[static_cast<size_t>(output.stage)].buffer->name);
  return out;
}

/// Returns the plan's kernels, finalised, with names that are unique in one file.
std::vector<ast::Kernel> kernels_of_file(const search::Plan& plan, const KernelNotes& notes) {
  render::Names names;
  std::vector<ast::Kernel> kernels;
  for (const search::KernelPlanRef& kernel : plan.kernels) {
    kernels.push_back(finalise(notes.with_axis_names(*kernel)));
    kernels.back().name = names.fresh(kernel->kernel.name);
  }
  return kernels;
}

/// A language of devices with work-groups.
struct GridTarget {
  std::string_view name; // of the target, and of the device that schedules are made for
  render::GridSource (*render)(const ast::Kernel&);
  std::string (*join)(const std::vector<render::GridSource>&);
};
constexpr GridTarget kGridTargets[] = {{"opencl", render::render_opencl, render::join_opencl},
                                       {"cuda", render::render_cuda, render::join_cuda}};

std::string emit_grid(const search::Plan& plan, const KernelNotes& notes, const GridTarget& grid) {
  std::vector<render::GridSource> sources;
  for (const ast::Kernel& kernel : kernels_of_file(plan, notes)) {
    const search::KernelPlan& planned = *plan.kernels[sources.size()];
    add_comment(sources.emplace_back(grid.render(kernel)), notes.comment(planned));
  }
  return launch_notes(plan, "//", sources) + grid.join(sources);
}

std::string emit_outputs(const std::vector<lower::NamedOutput>& outputs, const EmitOptions& options) {
  const std::string& target = options.target;
  constexpr std::string_view known[] = {"c", "opencl", "cuda", "llvm", "asm", "ast", "graph", "dot", "moves"};
  if (std::find(std::begin(known), std::end(known), target) == std::end(known)) unknown_target(target);
  const Front front = take_in(outputs, {.simplifies = options.simplify_graph,
                                        .evaluate = options.simplify_graph ? constants_of : nullptr,
                                        .folded_bytes = options.compile.folded_bytes,
                                        .unrolls = target != "graph" && target != "dot" && target != "c",
                                        .names_values = true,
                                        .takes_moved = false});
  if (target == "graph" || target == "dot") return emit_nodes(front.outputs, target);

  CompileOptions compile = options.compile;
  const auto* grid = std::find_if(std::begin(kGridTargets), std::end(kGridTargets),
                                  [&](const GridTarget& g) { return g.name == target; });
  if (grid != std::end(kGridTargets)) compile.device = target;
  const InExprScope inside(new_expr_scope());
  const search::Plan plan = schedule(front.lowered(), compile).plan;
  const KernelNotes notes(plan, compile, front.names);
  if (target == "c") return emit_c(plan, notes, front.inputs, compile);
  std::string out;
  if (target == "moves") {
    for (const search::Move& move : plan.moves()) out += to_string(move) + "\n";
    return out;
  }
  if (target == "ast") {
    for (const search::KernelPlanRef& kernel : plan.kernels)
      out.append(out.empty() ? "" : "\n").append(ast::print(kernel->kernel));
    return out;
  }
  if (grid != std::end(kGridTargets)) return emit_grid(plan, notes, *grid);
  if (target == "llvm") out = launch_notes(plan, ";");
  if (target == "asm") out = launch_notes(plan, "#");
  for (const ast::Kernel& kernel : kernels_of_file(plan, notes))
    out.append("\n").append(emit_kernel(kernel, target, compile));
  return out;
}

} // namespace
} // namespace pipeline

std::string emit(const NamedTensors& outputs, const EmitOptions& options) {
  std::vector<lower::NamedOutput> named;
  for (const auto& [name, tensor] : outputs)
    named.push_back({name, outputs.size() == 1 ? detail::impl(tensor)->origin() : graph::held_node(tensor),
                     graph::declared_of(tensor)});
  return pipeline::emit_outputs(named, options);
}

std::string emit(const Tensor& output, const EmitOptions& options) {
  return emit(NamedTensors{{"out", output}}, options);
}

} // namespace lathe
