// The order of a graph's nodes, and who reads what.
#include <fmt/format.h>

#include <deque>
#include <unordered_set>

#include "onnx/parse.hpp"

namespace lathe::onnx {
namespace {

/// Which node makes each name; nothing for the graph's inputs and initialisers.
using Makers = std::unordered_map<std::string, std::optional<size_t>>;

Makers makers_of(const Source& source, const GraphDef& graph) {
  Makers makers;
  for (const Port& port : graph.inputs)
    if (!makers.emplace(port.name, std::nullopt).second)
      source.fail(fmt::format("has two inputs called '{}'", port.name));
  for (const auto& [name, value] : graph.initialisers) makers.emplace(name, std::nullopt);
  for (size_t k = 0; k < graph.nodes.size(); ++k)
    for (const std::string& output : graph.nodes[k].outputs)
      if (!output.empty() && !makers.emplace(output, k).second)
        source.fail(fmt::format("node '{}' makes '{}', which is made before", graph.nodes[k].name, output));
  return makers;
}

/// For each node the nodes it waits for.
std::vector<std::vector<size_t>> sources_of(const Source& source, GraphDef& graph, const Makers& makers,
                                            const std::unordered_set<std::string>& outer) {
  std::vector<std::vector<size_t>> sources(graph.nodes.size());
  std::unordered_set<std::string> captured;
  auto resolve = [&](const std::string& name, const std::string& reader) -> std::optional<size_t> {
    if (auto made = makers.find(name); made != makers.end()) return made->second;
    if (!outer.count(name)) source.fail(fmt::format("{} reads '{}', which nothing makes", reader, name));
    if (captured.insert(name).second) graph.captured.push_back(name);
    return {};
  };
  for (size_t k = 0; k < graph.nodes.size(); ++k)
    for (const std::string& name : names_read(graph.nodes[k]))
      if (auto made = resolve(name, fmt::format("node '{}'", graph.nodes[k].name)))
        sources[k].push_back(*made);
  for (const Port& port : graph.outputs) resolve(port.name, fmt::format("output '{}'", port.name));
  return sources;
}

/// Kahn's algorithm; of the nodes that are ready, the one that stands first in the file.
std::vector<size_t> kahn_order(const Source& source, const GraphDef& graph,
                               const std::vector<std::vector<size_t>>& sources) {
  std::vector<std::vector<size_t>> readers(sources.size());
  std::vector<size_t> missing(sources.size());
  for (size_t k = 0; k < sources.size(); ++k) {
    missing[k] = sources[k].size();
    for (size_t from : sources[k]) readers[from].push_back(k);
  }
  std::deque<size_t> ready;
  for (size_t k = 0; k < sources.size(); ++k)
    if (missing[k] == 0) ready.push_back(k);
  std::vector<size_t> order;
  while (!ready.empty()) {
    order.push_back(ready.front());
    ready.pop_front();
    for (size_t reader : readers[order.back()])
      if (--missing[reader] == 0) ready.push_back(reader);
  }
  for (size_t k = 0; k < sources.size() && order.size() < sources.size(); ++k)
    if (missing[k] > 0) source.fail(fmt::format("node '{}' waits for its own output", graph.nodes[k].name));
  return order;
}

bool in_order(const std::vector<std::vector<size_t>>& sources) {
  for (size_t k = 0; k < sources.size(); ++k)
    for (size_t from : sources[k])
      if (from >= k) return false;
  return true;
}

} // namespace

std::vector<std::string> names_read(const NodeDef& node) {
  std::vector<std::string> names;
  for (const std::string& input : node.inputs)
    if (!input.empty()) names.push_back(input);
  for_each_body(node, [&](const GraphDef& body) {
    names.insert(names.end(), body.captured.begin(), body.captured.end());
  });
  return names;
}

void order_nodes(const Source& source, GraphDef& graph, const std::vector<std::string>& outer) {
  const Makers makers = makers_of(source, graph);
  const auto sources = sources_of(source, graph, makers, {outer.begin(), outer.end()});
  if (!in_order(sources)) {
    std::vector<NodeDef> ordered;
    for (size_t k : kahn_order(source, graph, sources)) ordered.push_back(std::move(graph.nodes[k]));
    graph.nodes = std::move(ordered);
  }
  for (size_t k = 0; k < graph.nodes.size(); ++k)
    for (const std::string& name : names_read(graph.nodes[k])) graph.last_use[name] = k;
  for (const Port& port : graph.outputs) graph.last_use[port.name] = graph.nodes.size();
}

} // namespace lathe::onnx
