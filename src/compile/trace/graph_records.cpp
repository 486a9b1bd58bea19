// The records of graphs: nodes once each, then what every step adds to the graph and takes away.
#include "compile/trace/trace_state.hpp"
#include "graph/print.hpp"

namespace lathe::tracing {

int64_t Trace::State::node(const graph::NodeRef& node, Json& defined) {
  // Sources are defined before their users. Graphs are deep, so this is no recursion.
  std::vector<const graph::NodeRef*> stack{&node};
  while (!stack.empty()) {
    const graph::NodeRef& at = *stack.back();
    if (nodes.contains(at.get())) {
      stack.pop_back();
      continue;
    }
    bool is_ready = true;
    for (const graph::NodeRef& source : at->sources)
      if (!nodes.contains(source.get())) {
        stack.push_back(&source);
        is_ready = false;
      }
    if (!is_ready) continue;
    stack.pop_back();
    const auto id = static_cast<int64_t>(nodes.size());
    nodes.emplace(at.get(), id);
    kept.push_back(at);
    Json sources = Json::array();
    for (const graph::NodeRef& source : at->sources) sources.push_back(nodes.at(source.get()));
    defined.push_back({{"id", id},
                       {"op", std::string(to_string(at->op))},
                       {"dtype", std::string(to_string(at->dtype))},
                       {"shape", texts_of(at->shape)},
                       {"from", sources},
                       {"attr", graph::attribute_text(*at)}});
  }
  return nodes.at(node.get());
}

void Trace::graph(const std::string& step, const std::vector<graph::NodeRef>& outputs) {
  Json record = state_->record("graph");
  record["step"] = step;
  Json defined = Json::array();
  std::set<int64_t> live;
  for (const graph::NodeRef& node : graph::topological_order(outputs))
    live.insert(state_->node(node, defined));
  record["nodes"] = defined;
  Json added = Json::array(), removed = Json::array(), results = Json::array();
  for (const int64_t id : live)
    if (!state_->live.contains(id)) added.push_back(id);
  for (const int64_t id : state_->live)
    if (!live.contains(id)) removed.push_back(id);
  for (const graph::NodeRef& output : outputs) results.push_back(state_->node(output, defined));
  record["added"] = added;
  record["removed"] = removed;
  record["outputs"] = results;
  state_->write(record);
  state_->live = std::move(live);
}

graph::RewriteTrace Trace::rewrites() {
  return [this](std::string_view rule, const graph::NodeRef& before, const graph::NodeRef& after) {
    Json defined = Json::array();
    const int64_t from = state_->node(before, defined), to = state_->node(after, defined);
    Json record = state_->record("rewrite");
    record["rule"] = std::string(rule);
    record["before"] = from;
    record["after"] = to;
    record["nodes"] = defined;
    state_->write(record);
  };
}

void Trace::origins(const std::vector<std::pair<std::string, graph::NodeRef>>& named) {
  Json record = state_->record("origins");
  Json names = Json::array();
  for (const auto& [name, node] : named) {
    const auto known = state_->nodes.find(node.get());
    if (known != state_->nodes.end() && state_->live.contains(known->second))
      names.push_back({known->second, name});
  }
  record["names"] = names;
  state_->write(record);
  state_->named = named;
}

} // namespace lathe::tracing
