// The whole pipeline on one screen.
#include "compile/pipeline.hpp"

#include <map>

#include "ast/prepare.hpp"
#include "compile/assemble.hpp"
#include "compile/inputs.hpp"
#include "compile/moved.hpp"
#include "graph/constants.hpp"
#include "graph/realise.hpp"
#include "graph/tensor_impl.hpp"
#include "lathe/error.hpp"

namespace lathe {
namespace pipeline {

namespace {

std::vector<graph::NodeRef> nodes_of(const std::vector<lower::NamedOutput>& outputs) {
  std::vector<graph::NodeRef> nodes;
  for (const lower::NamedOutput& output : outputs) nodes.push_back(output.node);
  return nodes;
}

std::vector<lower::NamedOutput> named_as(const std::vector<lower::NamedOutput>& outputs,
                                         const std::vector<graph::NodeRef>& nodes) {
  std::vector<lower::NamedOutput> named;
  for (size_t k = 0; k < outputs.size(); ++k) named.push_back({outputs[k].name, nodes[k]});
  return named;
}

} // namespace

std::vector<lower::NamedOutput> simplify(const std::vector<lower::NamedOutput>& outputs) {
  return named_as(outputs, graph::simplify(graph::with_realised(nodes_of(outputs))));
}

std::vector<lower::NamedOutput> fold_constants(const std::vector<lower::NamedOutput>& outputs) {
  return named_as(outputs, graph::fold_constants(nodes_of(outputs)));
}

std::shared_ptr<const lower::Program> lowered(const NamedTensors& outputs) {
  std::vector<lower::NamedOutput> named;
  for (const auto& [name, tensor] : outputs) named.push_back({name, graph::node_of(tensor)});
  named = fold_constants(simplify(named));
  take_moved(named);
  return std::make_shared<const lower::Program>(lower::lower(named));
}

ast::Kernel finalise(const ast::Kernel& scheduled) {
  ast::Kernel kernel = ast::prepare(scheduled);
#ifndef NDEBUG
  ast::verify(kernel);
#endif
  return kernel;
}

Executable build(const search::Plan& plan, const CompileOptions& options) {
  return assemble(plan, {options, {}, false, {}});
}

} // namespace pipeline

Executable compile(const NamedTensors& outputs, const CompileOptions& options) {
  runtime::device(options.device); // says why if it is absent, before any work
  std::vector<lower::NamedOutput> named;
  for (const auto& [name, tensor] : outputs) named.push_back({name, graph::node_of(tensor)});
  const std::vector<KernelParam> inputs = pipeline::declared_inputs(named);
  named = pipeline::fold_constants(pipeline::simplify(named));
  std::vector<pipeline::MovedOutput> moved = pipeline::take_moved(named);
  if (named.empty() && !moved.empty()) {
    auto nothing = std::make_shared<const lower::Program>();
    return pipeline::assemble(search::initial_plan(nothing), {options, inputs, false, std::move(moved)});
  }
  auto program = std::make_shared<const lower::Program>(lower::lower(named));
  const search::SearchResult found = pipeline::schedule(program, options);
  return pipeline::assemble(found.plan, {options, inputs, found.measured_seconds > 0, std::move(moved)});
}

} // namespace lathe
