#include "compile/front/front.hpp"

#include <set>

#include "compile/front/inputs.hpp"
#include "compile/front/moved.hpp"
#include "graph/folding/constants.hpp"
#include "graph/narrow.hpp"
#include "graph/realise.hpp"
#include "graph/scan.hpp"
#include "graph/unroll.hpp"

namespace lathe::pipeline {

std::shared_ptr<const lower::Program> Front::lowered() const {
  if (outputs.empty() && !moved.empty()) return std::make_shared<const lower::Program>();
  return std::make_shared<const lower::Program>(lower::lower(outputs, evaluate));
}

namespace {

/// An output without elements as data, which no kernel has to write; else the node.
graph::NodeRef with_nothing_as_data(const graph::NodeRef& node) {
  if (!is_static(node->shape) || !graph::has_no_elements(node->shape)) return node;
  return graph::realised(Storage::allocate(0), node->dtype, node->shape);
}

/// The data of the realised tensors that the nodes read.
std::set<StorageRef> data_of(const std::vector<graph::NodeRef>& nodes) {
  std::set<StorageRef> data;
  for (const graph::NodeRef& node : graph::nodes_with_bodies(nodes))
    if (const auto* input = std::get_if<graph::InputAttr>(&node->attr); input && input->data)
      data.insert(input->data);
  return data;
}

/// The nodes, and the bodies of their recurrences, simplified and with constants folded. The trace and
/// `names` are told of the nodes alone; both may be null.
std::vector<graph::NodeRef> prepared(std::vector<graph::NodeRef> nodes, const FrontOptions& options,
                                     tracing::Trace* trace, ValueNames* names) {
  if (names) *names = names_in(nodes, options.origins, options.simplifies);
  if (options.simplifies) {
    const tracing::TimedPass pass(trace, "simplify");
    nodes = graph::simplify(graph::with_realised(nodes), trace ? trace->rewrites() : graph::RewriteTrace());
  }
  if (trace) trace->graph("simplified", nodes);
  {
    const tracing::TimedPass pass(trace, "fold constants");
    std::unordered_map<const graph::Node*, graph::NodeRef> became;
    nodes = graph::fold_constants(nodes, options.evaluate, options.folded_bytes, names ? &became : nullptr);
    if (names) *names = renamed(*names, became);
    nodes = graph::with_bodies(
        nodes, [&](const auto& results) { return prepared(results, options, nullptr, nullptr); });
  }
  if (trace) trace->graph("constants folded", nodes);
  return nodes;
}

/// The nodes that the user's names stand for once the graph is simplified. Names are no outputs, so that they
/// change nothing.
void name_origins(const FrontOptions& options) {
  std::vector<std::pair<std::string, graph::NodeRef>> named;
  std::vector<graph::NodeRef> nodes;
  for (const auto& [name, tensor] : options.origins) nodes.push_back(graph::held_node(tensor));
  if (options.simplifies) nodes = graph::simplify(graph::with_realised(nodes));
  size_t k = 0;
  for (const auto& [name, tensor] : options.origins) named.emplace_back(name, nodes[k++]);
  options.trace->origins(named);
}

} // namespace

Front take_in(const std::vector<lower::NamedOutput>& outputs, const FrontOptions& options) {
  Front front{declared_inputs(outputs), outputs, {}, options.evaluate};
  std::vector<graph::NodeRef> nodes;
  for (const lower::NamedOutput& output : outputs) nodes.push_back(output.node);
  if (options.unrolls) nodes = graph::unrolled(nodes, "emit");
  if (options.trace) options.trace->graph("given", nodes);
  const auto given = data_of(options.simplifies ? graph::with_realised(nodes) : nodes);
  nodes = prepared(std::move(nodes), options, options.trace, options.names_values ? &front.names : nullptr);
  if (options.trace) name_origins(options);
  for (const StorageRef& data : data_of(nodes))
    if (!given.contains(data)) front.folded_bytes += static_cast<int64_t>(data->bytes());
  for (size_t k = 0; k < nodes.size(); ++k) front.outputs[k].node = with_nothing_as_data(nodes[k]);
  if (options.takes_moved) front.moved = take_moved(front.outputs);
  return front;
}

Front take_in(const NamedTensors& outputs, const FrontOptions& options) {
  return take_in(named_outputs(outputs), options);
}

std::vector<lower::NamedOutput> named_outputs(const NamedTensors& outputs) {
  std::vector<lower::NamedOutput> named;
  for (const auto& [name, tensor] : outputs)
    named.push_back({name, graph::held_node(tensor), graph::declared_of(tensor)});
  return named;
}

} // namespace lathe::pipeline
