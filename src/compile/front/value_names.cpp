#include "compile/front/value_names.hpp"

#include <algorithm>

#include "graph/function.hpp"
#include "graph/narrow.hpp"
#include "graph/realise.hpp"

namespace lathe::pipeline {
namespace {

using graph::NodeRef;

/// Whether element k of the value is made of the elements k of the arguments.
bool is_of_elements(const graph::Node& node) {
  return node.op == Op::Function && node.sources.size() > 1 &&
         std::all_of(node.sources.begin(), node.sources.end(), [&](const NodeRef& source) {
           return source->shape == node.shape && source->dtype == node.dtype;
         });
}

NodeRef without_views(NodeRef node) {
  while (node->op == Op::View) node = node->sources[0];
  return node;
}

} // namespace

ValueNames names_in(const std::vector<NodeRef>& nodes, const std::map<std::string, Tensor>& origins,
                    bool simplifies) {
  std::vector<NodeRef> marks, values; // of each mark its sources: the value, then the arguments; then origins
  for (const NodeRef& node : graph::topological_order(nodes)) {
    if (!is_of_elements(*node)) continue;
    marks.push_back(node);
    values.insert(values.end(), node->sources.begin(), node->sources.end());
  }
  for (const auto& [name, tensor] : origins) values.push_back(graph::held_node(tensor));
  if (simplifies) values = graph::simplify(graph::with_realised(values));
  ValueNames names;
  auto at = values.begin();
  for (const NodeRef& mark : marks) {
    const auto end = at + static_cast<std::ptrdiff_t>(mark->sources.size());
    const auto& attr = std::get<graph::FunctionAttr>(mark->attr);
    const bool is_argument = std::find(at + 1, end, *at) != end; // relu of what is not negative
    if (!is_argument)
      names.calls.try_emplace(at->get(),
                              lower::FunctionCall{*at, attr.rule->name, {at + 1, end}, attr.parameter});
    at = end;
  }
  for (const auto& [name, tensor] : origins) names.origins.emplace_back(without_views(*at++), name);
  return names;
}

ValueNames renamed(const ValueNames& names, const std::unordered_map<const graph::Node*, NodeRef>& became) {
  const auto now = [&](const NodeRef& node) {
    const auto found = became.find(node.get());
    return found == became.end() ? node : found->second;
  };
  ValueNames out;
  for (const auto& [node, call] : names.calls) {
    lower::FunctionCall moved{now(call.value), call.function, {}, call.parameter};
    for (const NodeRef& argument : call.arguments) moved.arguments.push_back(now(argument));
    const graph::Node* value = moved.value.get();
    out.calls.try_emplace(value, std::move(moved));
  }
  for (const auto& [node, name] : names.origins) out.origins.emplace_back(without_views(now(node)), name);
  return out;
}

} // namespace lathe::pipeline
