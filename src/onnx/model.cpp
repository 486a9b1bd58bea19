// Model: what can be said of it without compiling.
#include <fmt/format.h>

#include <set>

#include "lathe/onnx/tensor_names.hpp"
#include "onnx/graph.hpp"
#include "onnx/registry.hpp"

namespace lathe::onnx {
namespace {

/// Every node of a graph and of the bodies in it.
void for_each_node(const GraphDef& graph, const std::function<void(const NodeDef&)>& visit) {
  for (const NodeDef& node : graph.nodes) {
    visit(node);
    for_each_body(node, [&](const GraphDef& body) { for_each_node(body, visit); });
  }
}

void find_problems(const Model::Impl& model, const GraphDef& graph, const std::map<std::string, int>& opsets,
                   std::vector<Problem>& problems) {
  for_each_node(graph, [&](const NodeDef& node) {
    if (model.functions.count({node.domain, node.op})) return;
    auto version = opsets.find(node.domain);
    const int opset = version == opsets.end() ? 1 : version->second;
    const FoundOp found = find_op(node.domain, node.op, opset);
    if (found.import) return;
    const std::string domain = node.domain.empty() ? "ai.onnx" : node.domain;
    problems.push_back({node.name, node.op, domain, opset,
                        fmt::format("node '{}': op {} of domain '{}' at opset {} is not supported: {}",
                                    node.name, node.op, domain, opset, found.refusal)});
  });
}

int64_t elements_of(const GraphDef& graph) {
  int64_t count = 0;
  for (const auto& [name, value] : graph.initialisers) count += num_elements(value.shape()).value();
  for (const NodeDef& node : graph.nodes)
    for_each_body(node, [&](const GraphDef& body) { count += elements_of(body); });
  return count;
}

} // namespace

const std::vector<Port>& Model::inputs() const { return impl_->inputs; }
const std::vector<Port>& Model::outputs() const { return impl_->graph.outputs; }
const std::map<std::string, std::string>& Model::metadata() const { return impl_->metadata; }
const std::map<std::string, int>& Model::opsets() const { return impl_->opsets; }
std::vector<Port> Model::defaults() const {
  std::vector<Port> ports;
  for (const Port& port : impl_->graph.inputs)
    if (impl_->graph.initialisers.count(port.name)) ports.push_back(port);
  return ports;
}

Model Model::without_defaults(const std::vector<std::string>& names) const {
  const std::vector<Port> all = defaults();
  auto changed = std::make_shared<Model::Impl>(*impl_);
  for (const std::string& name : names) {
    if (std::none_of(all.begin(), all.end(), [&](const Port& port) { return port.name == name; }))
      throw Error(ErrorKind::Name,
                  fmt::format("{}: '{}' is no initialiser that the model lists as an input, expected one",
                              impl_->path, name));
    changed->graph.initialisers.erase(name);
  }
  changed->find_inputs();
  return Model(std::move(changed));
}

void Model::Impl::find_inputs() {
  inputs.clear();
  for (const Port& port : graph.inputs)
    if (!graph.initialisers.count(port.name)) inputs.push_back(port);
}

int64_t Model::parameter_count() const { return elements_of(impl_->graph); }

std::vector<std::string> tensor_names(const Model& model) {
  std::vector<std::string> names = identifiers(model.inputs());
  const std::vector<std::string> outputs = identifiers(model.outputs());
  names.insert(names.end(), outputs.begin(), outputs.end());
  return names;
}

size_t Model::node_count() const {
  size_t count = 0;
  for_each_node(impl_->graph, [&](const NodeDef&) { ++count; });
  return count;
}

std::vector<Problem> Model::problems() const {
  std::vector<Problem> problems;
  find_problems(*impl_, impl_->graph, impl_->opsets, problems);
  for (const auto& [key, function] : impl_->functions)
    find_problems(*impl_, function.body, function.opsets, problems);
  return problems;
}

} // namespace lathe::onnx
