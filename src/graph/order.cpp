// Orders over a graph: topological, by generations, and bottom-up rebuilding. All iterative: a user's graph
// may be a chain of a million nodes.
#include <unordered_map>

#include "graph/node.hpp"
#include "lathe/error.hpp"

namespace lathe::graph {
namespace {

struct Discovery {
  std::vector<const NodeRef*> nodes; // in order of discovery: depth first, sources first
  std::unordered_map<const Node*, size_t> index;
};

// The pointed-to refs live in `outputs` and in the nodes' own source lists.
Discovery discover(const std::vector<NodeRef>& outputs,
                   const std::function<bool(const NodeRef&)>& is_leaf = {}) {
  Discovery d;
  std::unordered_map<const Node*, bool> entered;
  struct Frame {
    const NodeRef* node;
    size_t next;
  };
  std::vector<Frame> stack;
  for (const NodeRef& output : outputs) {
    if (!entered.emplace(output.get(), true).second) continue;
    stack.push_back({&output, 0});
    while (!stack.empty()) {
      Frame& top = stack.back();
      const Node& n = **top.node;
      if (top.next < n.sources.size() && !(is_leaf && is_leaf(*top.node))) {
        const NodeRef& s = n.sources[top.next++];
        if (entered.emplace(s.get(), true).second) stack.push_back({&s, 0});
        continue;
      }
      d.index.emplace(&n, d.nodes.size());
      d.nodes.push_back(top.node);
      stack.pop_back();
    }
  }
  return d;
}

} // namespace

std::vector<NodeRef> topological_order(const std::vector<NodeRef>& outputs) {
  const Discovery d = discover(outputs);
  const size_t count = d.nodes.size();
  std::vector<std::vector<size_t>> users(count);
  std::vector<size_t> missing(count);
  std::vector<size_t> ready;
  ready.reserve(count);
  for (size_t i = 0; i < count; ++i) {
    const Node& n = **d.nodes[i];
    missing[i] = n.sources.size();
    for (const NodeRef& s : n.sources) users[d.index.at(s.get())].push_back(i);
    if (n.sources.empty()) ready.push_back(i);
  }
  std::vector<NodeRef> order;
  order.reserve(count);
  for (size_t head = 0; head < ready.size(); ++head) {
    order.push_back(*d.nodes[ready[head]]);
    for (size_t user : users[ready[head]])
      if (--missing[user] == 0) ready.push_back(user);
  }
  return order;
}

std::vector<std::vector<NodeRef>> generations(const std::vector<NodeRef>& outputs) {
  const Discovery d = discover(outputs);
  const size_t count = d.nodes.size();
  std::vector<size_t> users(count);
  for (size_t i = 0; i < count; ++i)
    for (const NodeRef& s : (*d.nodes[i])->sources) ++users[d.index.at(s.get())];
  std::vector<size_t> current;
  for (size_t i = 0; i < count; ++i)
    if (users[i] == 0) current.push_back(i);
  std::vector<std::vector<NodeRef>> result;
  while (!current.empty()) {
    std::vector<size_t> next;
    auto& generation = result.emplace_back();
    for (size_t i : current) {
      generation.push_back(*d.nodes[i]);
      for (const NodeRef& s : (*d.nodes[i])->sources) {
        const size_t k = d.index.at(s.get());
        if (--users[k] == 0) next.push_back(k);
      }
    }
    current = std::move(next);
  }
  return result;
}

std::vector<NodeRef> rebuild(const std::vector<NodeRef>& outputs,
                             const std::function<NodeRef(const NodeRef&, NodeRef)>& replace,
                             const std::function<bool(const NodeRef&)>& is_leaf) {
  const Discovery d = discover(outputs, is_leaf);
  std::vector<NodeRef> made(d.nodes.size());
  for (size_t i = 0; i < d.nodes.size(); ++i) {
    const NodeRef& node = *d.nodes[i];
    if (is_leaf && is_leaf(node)) {
      made[i] = replace(node, node);
      continue;
    }
    std::vector<NodeRef> sources;
    sources.reserve(node->sources.size());
    for (const NodeRef& s : node->sources) sources.push_back(made[d.index.at(s.get())]);
    made[i] = replace(node, with_sources(node, std::move(sources)));
  }
  std::vector<NodeRef> result;
  for (const NodeRef& output : outputs) result.push_back(made[d.index.at(output.get())]);
  return result;
}

} // namespace lathe::graph
