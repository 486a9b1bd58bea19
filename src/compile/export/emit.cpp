// Programs as text: source for the targets, or what stands before it (graph, loop AST, moves).
#include <algorithm>
#include <iterator>
#include <sstream>

#include <fmt/format.h>

#include "compile/export/emit_c.hpp"
#include "compile/front/front.hpp"
#include "compile/front/target.hpp"
#include "compile/run/finalise.hpp"
#include "compile/schedule.hpp"
#include "graph/tensor_impl.hpp"
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
      fmt::format("emit: target \"{}\" is unknown, expected c, opencl, llvm, asm, ast, graph, dot or moves",
                  target));
}

std::string emit_kernel(const ast::Kernel& finalised, const std::string& target,
                        const CompileOptions& options) {
  const runtime::CompileFlags flags{thread_count(options), options.cpu, false};
  if (target == "c") return render::render_c(finalised, {vector_bytes_of(options.cpu), true, {}});
  if (target == "opencl") return render::render_opencl(finalised).text;
  if (target == "llvm") return runtime::llvm_backend().ir_text(finalised, flags);
  if (target == "asm") return runtime::llvm_backend().assembly(finalised, flags);
  unknown_target(target);
}

std::string emit_nodes(const std::vector<lower::NamedOutput>& outputs, const std::string& target) {
  std::vector<graph::NodeRef> nodes;
  for (const lower::NamedOutput& output : outputs) nodes.push_back(output.node);
  return target == "dot" ? graph::to_graphviz(nodes) : graph::print(nodes);
}

/// The order of launches and what each is given, as comments.
std::string launch_notes(const search::Plan& plan, const char* comment) {
  std::string out;
  for (const search::KernelPlanRef& kernel : plan.kernels) {
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
  }
  for (const lower::OutputBuffer& output : plan.program->outputs)
    out += fmt::format("{} output {} is {}\n", comment, output.name,
                       plan.program->stages[static_cast<size_t>(output.stage)].buffer->name);
  return out;
}

/// Finalised, with names that are functions of one file.
std::vector<ast::Kernel> kernels_of_file(const search::Plan& plan) {
  render::Names names;
  std::vector<ast::Kernel> kernels;
  for (const search::KernelPlanRef& kernel : plan.kernels) {
    kernels.push_back(finalise(kernel->kernel));
    kernels.back().name = names.fresh(kernel->kernel.name);
  }
  return kernels;
}

/// All kernels' functions behind one copy of the helpers.
std::string opencl_functions(const std::vector<ast::Kernel>& kernels) {
  std::vector<render::OpenClSource> sources;
  for (const ast::Kernel& kernel : kernels) sources.push_back(render::render_opencl(kernel));
  return render::join_opencl(sources);
}

std::string emit_outputs(const std::vector<lower::NamedOutput>& outputs, const EmitOptions& options) {
  const std::string& target = options.target;
  constexpr std::string_view known[] = {"c", "opencl", "llvm", "asm", "ast", "graph", "dot", "moves"};
  if (std::find(std::begin(known), std::end(known), target) == std::end(known)) unknown_target(target);
  const Front front = take_in(outputs, {options.simplify_graph, options.simplify_graph, false});
  if (target == "graph" || target == "dot") return emit_nodes(front.outputs, target);

  CompileOptions compile = options.compile;
  if (target == "opencl") compile.device = "opencl"; // a schedule for work-groups
  const search::Plan plan = schedule(front.lowered(), compile).plan;
  if (target == "c") return emit_c(plan, front.inputs, compile);
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
  const std::vector<ast::Kernel> kernels = kernels_of_file(plan);
  if (target == "opencl") return launch_notes(plan, "//") + opencl_functions(kernels);
  if (target == "llvm") out = launch_notes(plan, ";");
  if (target == "asm") out = launch_notes(plan, "#");
  for (const ast::Kernel& kernel : kernels) out.append("\n").append(emit_kernel(kernel, target, compile));
  return out;
}

} // namespace
} // namespace pipeline

std::string emit(const NamedTensors& outputs, const EmitOptions& options) {
  std::vector<lower::NamedOutput> named;
  for (const auto& [name, tensor] : outputs)
    named.push_back({name, outputs.size() == 1 ? tensor.impl()->origin() : graph::node_of(tensor)});
  return pipeline::emit_outputs(named, options);
}

std::string emit(const Tensor& output, const EmitOptions& options) {
  return emit(NamedTensors{{"out", output}}, options);
}

} // namespace lathe
