// The rewrites of a graph, step by step. A node that is only built anew, since one below it was replaced,
// stays the node that it was: each step adds and removes what its rule did, and says which nodes read others
// now.
#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include <fmt/format.h>

#include "compile/view/picture.hpp"

namespace lathe::view {
namespace {

constexpr size_t kMostWork = 40'000'000; // nodes times steps; above, rules are not applied one by one

PictureNode picture_of(const NodeRecord& node) {
  return {
      node.op, fmt::format("{}[{}]", node.dtype, fmt::join(node.shape, ", ")), node.attr, "", {}, -1, false,
      false};
}

/// The nodes of a graph by content, so that equal ones are one.
class Interned {
public:
  explicit Interned(const Compilation& of) {
    for (const auto& [id, node] : of.nodes) by_id_[id] = add(node.op, node);
  }
  int of(int64_t id) const { return by_id_.at(id); }
  /// The same node over other sources.
  int with_sources(int node, const std::vector<int>& sources) {
    if (nodes_[static_cast<size_t>(node)].sources == sources) return node;
    PictureNode made = nodes_[static_cast<size_t>(node)];
    made.sources = sources;
    return intern(std::move(made));
  }
  const PictureNode& operator[](int node) const { return nodes_[static_cast<size_t>(node)]; }
  size_t size() const { return nodes_.size(); }

private:
  int add(const std::string&, const NodeRecord& record) {
    PictureNode node = picture_of(record);
    for (const int64_t source : record.from) node.sources.push_back(by_id_.at(source));
    return intern(std::move(node));
  }
  int intern(PictureNode node) {
    const std::string key =
        fmt::format("{}|{}|{}|{}", node.op, node.type, node.attr, fmt::join(node.sources, ","));
    const auto [known, is_new] = by_key_.try_emplace(key, static_cast<int>(nodes_.size()));
    if (is_new) nodes_.push_back(std::move(node));
    return known->second;
  }

  std::vector<PictureNode> nodes_;
  std::unordered_map<std::string, int> by_key_;
  std::unordered_map<int64_t, int> by_id_;
};

/// The graph below `outputs`, sources first.
std::vector<int> reachable(const Interned& nodes, const std::vector<int>& outputs) {
  std::vector<int> order;
  std::unordered_set<int> done;
  std::vector<std::pair<int, size_t>> stack;
  for (const int output : outputs) {
    if (done.insert(output).second) stack.emplace_back(output, 0);
    while (!stack.empty()) {
      auto& [node, next] = stack.back();
      const std::vector<int>& sources = nodes[node].sources;
      if (next == sources.size()) {
        order.push_back(node);
        stack.pop_back();
      } else if (const int source = sources[next++]; done.insert(source).second) {
        stack.emplace_back(source, 0);
      }
    }
  }
  return order;
}

/// Which nodes are an earlier one over other sources: for a reader, the same node.
class Rebuilt {
public:
  /// A candidate: `node` is `earlier` over other sources. Of several, the first counts.
  void add(int node, int earlier) {
    if (node != earlier && !seen_.contains(node)) earlier_.emplace(node, earlier);
  }
  /// Nodes that are live together are not one.
  void live(const std::vector<int>& nodes) {
    seen_.insert(nodes.begin(), nodes.end());
    std::unordered_map<int, int> taken;
    for (const int node : nodes)
      if (const auto [other, is_first] = taken.try_emplace(first(node), node); !is_first)
        apart_.insert(first(node));
  }
  /// The node that stands for it.
  int of(int node) const { return apart_.contains(first(node)) ? node : first(node); }

private:
  int first(int node) const {
    for (auto at = earlier_.find(node); at != earlier_.end(); at = earlier_.find(node)) node = at->second;
    return node;
  }
  std::unordered_map<int, int> earlier_;
  std::unordered_set<int> seen_;  // live after some step
  std::unordered_set<int> apart_; // first nodes whose later forms are nodes of their own
};

/// The outputs after these replacements, which apply to nodes whose sources are replaced already. Notes which
/// nodes are others over other sources.
std::vector<int> replaced(Interned& nodes, const std::vector<int>& outputs,
                          const std::unordered_map<int, int>& to, Rebuilt& rebuilt) {
  std::unordered_map<int, int> made;
  for (const int node : reachable(nodes, outputs)) {
    std::vector<int> sources;
    for (const int source : nodes[node].sources) sources.push_back(made.at(source));
    int now = nodes.with_sources(node, sources);
    if (!to.contains(now)) rebuilt.add(now, node);
    for (size_t hops = 0; hops <= to.size(); ++hops) {
      const auto next = to.find(now);
      if (next == to.end()) break;
      now = next->second;
    }
    made[node] = now;
  }
  std::vector<int> results;
  for (const int output : outputs) results.push_back(made.at(output));
  return results;
}

/// The graph after a step, by interned nodes.
struct Moment {
  std::string name;
  int before, after; // of a rule; -1: a pass
  std::vector<int> live;
};

std::vector<Moment> moments_of(const Compilation& of, Interned& nodes, Rebuilt& rebuilt) {
  const auto outputs_of = [&](const GraphStep& step) {
    std::vector<int> outputs;
    for (const int64_t id : step.outputs) outputs.push_back(nodes.of(id));
    return outputs;
  };
  std::vector<Moment> moments;
  const auto add = [&](std::string name, int before, int after, const std::vector<int>& outputs) {
    moments.push_back({std::move(name), before, after, reachable(nodes, outputs)});
    rebuilt.live(moments.back().live);
  };
  add(of.steps[0].name, -1, -1, outputs_of(of.steps[0]));
  size_t rule = of.steps[0].rewrites;
  for (size_t s = 1; s < of.steps.size(); ++s) {
    const std::vector<int> outputs = outputs_of(of.steps[s - 1]);
    const size_t first = rule;
    std::unordered_map<int, int> to;
    for (; rule < std::min(of.steps[s].rewrites, of.rewrites.size()); ++rule) {
      const RewriteRecord& rewrite = of.rewrites[rule];
      const int before = nodes.of(rewrite.before), after = nodes.of(rewrite.after);
      if (before != after) to[before] = after;
      if ((rule - first) * moments[0].live.size() > kMostWork) continue;
      add(rewrite.rule, before, after, replaced(nodes, outputs, to, rebuilt));
    }
    add(of.steps[s].name, -1, -1, outputs_of(of.steps[s]));
  }
  return moments;
}

/// The picture's nodes from interned ones, and its steps.
class RewritePainter {
public:
  RewritePainter(const Interned& nodes, const Rebuilt& rebuilt, const std::vector<Moment>& moments)
      : nodes_(nodes), rebuilt_(rebuilt) {
    for (const Moment& moment : moments)
      for (const int node : moment.live) {
        std::vector<int>& reads = reads_[rebuilt.of(node)];
        for (const int source : nodes[node].sources) reads.push_back(rebuilt.of(source));
      }
    for (const Moment& moment : moments)
      for (const int node : moment.live) place(rebuilt.of(node));
    for (const Moment& moment : moments) add(moment);
  }
  int at(int node) const {
    const auto found = position_.find(rebuilt_.of(node));
    return found == position_.end() ? -1 : found->second;
  }
  RewritePicture take() { return std::move(picture_); }

private:
  /// Numbers the node after those that it reads at any time, but for those that lead back to it.
  void place(int node) {
    std::vector<std::pair<int, size_t>> stack{{node, 0}};
    while (!stack.empty()) {
      auto& [top, next] = stack.back();
      if (next == 0 && !position_.try_emplace(top, -1).second) {
        stack.pop_back();
        continue;
      }
      const std::vector<int>& reads = reads_.at(top);
      if (next < reads.size()) {
        stack.emplace_back(reads[next++], 0);
        continue;
      }
      position_[top] = static_cast<int>(picture_.nodes.size());
      PictureNode shown = nodes_[top];
      shown.sources.clear(); // add() knows them
      picture_.nodes.push_back(std::move(shown));
      stack.pop_back();
    }
  }

  void add(const Moment& moment) {
    std::unordered_map<int, std::vector<int>> now; // live positions, and what they read
    for (const int node : moment.live) {
      std::vector<int>& sources = now[at(node)];
      for (const int source : nodes_[node].sources) sources.push_back(at(source));
    }
    RewriteStep step{moment.name, moment.before < 0 ? -1 : at(moment.before),
                     moment.after < 0 ? -1 : at(moment.after)};
    for (const auto& [node, sources] : now) {
      const auto before = live_.find(node);
      if (before == live_.end()) {
        step.added.push_back(node);
        std::vector<int>& first = picture_.nodes[static_cast<size_t>(node)].sources;
        if (first.empty()) first = sources;
      }
      const bool is_as_shown = picture_.nodes[static_cast<size_t>(node)].sources == sources;
      if (before == live_.end() ? !is_as_shown : before->second != sources)
        step.rewired.emplace_back(node, sources);
    }
    for (const auto& [node, sources] : live_)
      if (!now.contains(node)) step.removed.push_back(node);
    std::sort(step.added.begin(), step.added.end());
    std::sort(step.removed.begin(), step.removed.end());
    std::sort(step.rewired.begin(), step.rewired.end());
    live_ = std::move(now);
    if (is_first_) picture_.live = std::move(step.added);
    if (!is_first_) picture_.steps.push_back(std::move(step));
    is_first_ = false;
  }

  const Interned& nodes_;
  const Rebuilt& rebuilt_;
  RewritePicture picture_;
  std::unordered_map<int, std::vector<int>>
      reads_;                             // by node that stands for others: what any form of it reads
  std::unordered_map<int, int> position_; // in the picture, by the same; -1: not yet numbered
  std::unordered_map<int, std::vector<int>> live_; // after the last step
  bool is_first_ = true;
};

} // namespace

/// Rules are applied to the graph one after the other. A pass then ends with the graph that was recorded.
RewritePicture rewrite_picture(const Compilation& of) {
  if (of.steps.empty()) return {};
  Interned nodes(of);
  Rebuilt rebuilt;
  const std::vector<Moment> moments = moments_of(of, nodes, rebuilt);
  RewritePainter painter(nodes, rebuilt, moments);
  RewritePicture picture = painter.take();
  for (const auto& [id, name] : of.origins)
    if (const int node = painter.at(nodes.of(id)); node >= 0)
      picture.nodes[static_cast<size_t>(node)].origin = name;
  return picture;
}

} // namespace lathe::view
