// What the rules of rules.hpp share: a graph under rewriting.
#pragma once
#include <algorithm>
#include <set>

#include "onnx/node_attribute.hpp"
#include "onnx/parse.hpp"
#include "onnx/rules.hpp"
#include "onnx/tracer.hpp"

namespace lathe::onnx {

/// A graph under rewriting. Nodes are only marked as gone, so that positions stay good.
class Rewriter {
public:
  Rewriter(GraphDef& graph, std::vector<AppliedRule>* applied) : graph_(graph), applied_(applied) {
    for (size_t k = 0; k < graph.nodes.size(); ++k) {
      for (const std::string& name : graph.nodes[k].inputs) ++reads_[name];
      for_each_body(graph.nodes[k],
                    [&](const GraphDef& body) { fixed_.insert(body.captured.begin(), body.captured.end()); });
      for (const std::string& name : graph.nodes[k].outputs) maker_[name] = k;
    }
    for (const Port& port : graph.outputs) fixed_.insert(port.name);
  }

  std::vector<NodeDef>& nodes() { return graph_.nodes; }
  bool gone(size_t k) const { return gone_.count(k) > 0; }
  /// Whether the name has to stay: a body or the caller reads it.
  bool fixed(const std::string& name) const { return fixed_.count(name) > 0; }
  size_t readers(const std::string& name) const {
    auto found = reads_.find(name);
    return found == reads_.end() ? 0 : found->second;
  }
  /// The name that stands for this one after what was applied.
  std::string current(std::string name) const {
    for (auto found = alias_.find(name); found != alias_.end(); found = alias_.find(name))
      name = found->second;
    return name;
  }
  /// The node that makes the value, if it is still there.
  NodeDef* maker(const std::string& name) {
    auto found = maker_.find(current(name));
    return found == maker_.end() || gone(found->second) ? nullptr : &graph_.nodes[found->second];
  }
  const Value* constant(const std::string& name) const {
    auto found = graph_.initialisers.find(current(name));
    return found == graph_.initialisers.end() ? nullptr : &found->second;
  }
  void set_constant(const std::string& name, Value value) {
    graph_.initialisers.insert_or_assign(name, std::move(value));
  }

  /// The node's first output is `source` from here on; nothing reads its others.
  void replace(const char* rule, size_t k, const std::string& source) {
    const NodeDef& node = graph_.nodes[k];
    alias_[node.outputs[0]] = source;
    reads_[current(source)] += readers(node.outputs[0]);
    remove(rule, k);
  }
  void remove(const char* rule, size_t k) {
    for (const std::string& name : graph_.nodes[k].inputs) --reads_[current(name)];
    gone_.insert(k);
    if (applied_) applied_->push_back({rule, graph_.nodes[k].name});
  }

  /// `node`, with other inputs, makes what the node at `k` made; nothing else read its output.
  void take_place(const char* rule, size_t k, NodeDef& node, std::vector<std::string> inputs) {
    for (const std::string& name : node.inputs) --reads_[current(name)];
    for (const std::string& name : inputs) ++reads_[name];
    node.inputs = std::move(inputs);
    node.outputs[0] = graph_.nodes[k].outputs[0];
    maker_[node.outputs[0]] = static_cast<size_t>(&node - graph_.nodes.data());
    remove(rule, k);
  }

  /// The node reads `name` as this input.
  void rewire(NodeDef& node, size_t input, const std::string& name) {
    if (!node.inputs[input].empty()) --reads_[current(node.inputs[input])];
    ++reads_[current(name)];
    node.inputs[input] = name;
  }

  void finish(const Source& source) {
    std::vector<NodeDef> kept;
    for (size_t k = 0; k < graph_.nodes.size(); ++k) {
      if (gone(k)) continue;
      for (std::string& name : graph_.nodes[k].inputs) name = current(name);
      kept.push_back(std::move(graph_.nodes[k]));
    }
    graph_.nodes = std::move(kept);
    graph_.last_use.clear();
    order_nodes(source, graph_, {});
    std::erase_if(graph_.initialisers,
                  [&](const auto& entry) { return !graph_.last_use.count(entry.first); });
  }

private:
  GraphDef& graph_;
  std::vector<AppliedRule>* applied_;
  std::unordered_map<std::string, size_t> reads_, maker_;
  std::unordered_map<std::string, std::string> alias_;
  std::set<std::string> fixed_;
  std::set<size_t> gone_;
};

/// Removes a QuantizeLinear that undoes a DequantizeLinear, see rules.hpp.
void rule_requantise(Rewriter& graph, size_t k);

} // namespace lathe::onnx
