#include "compile/view/picture.hpp"

#include <algorithm>
#include <map>
#include <unordered_map>
#include <unordered_set>

#include <fmt/format.h>

#include "graph/node.hpp"
#include "graph/print.hpp"
#include "lathe/error.hpp"

namespace lathe::view {
namespace {

constexpr size_t kMostWork = 40'000'000; // nodes times steps; above, rules are not applied one by one

PictureNode picture_of(const NodeRecord& node) {
  return {
      node.op, fmt::format("{}[{}]", node.dtype, fmt::join(node.shape, ", ")), node.attr, "", {}, -1, false,
      false};
}

/// Lines of a graph's text: "%3 = Add(%1, %2) : f32[4]". Text that the trace's writer made; a line that has
/// another form is left out.
std::vector<PictureNode> nodes_of(const std::string& text) {
  std::vector<PictureNode> nodes;
  size_t begin = 0;
  while (begin < text.size()) {
    size_t end = text.find('\n', begin);
    if (end == std::string::npos) end = text.size();
    const std::string line = text.substr(begin, end - begin);
    begin = end + 1;
    const size_t equals = line.find(" = "), open = line.find('('), type = line.rfind(") : ");
    if (line.empty() || line[0] != '%' || equals == std::string::npos || open == std::string::npos ||
        type == std::string::npos || type < open)
      continue;
    PictureNode node;
    node.op = line.substr(equals + 3, open - equals - 3);
    node.type = line.substr(type + 4);
    std::string rest = line.substr(open + 1, type - open - 1);
    while (!rest.empty() && rest[0] == '%') {
      const size_t comma = rest.find(", ");
      const long source = std::strtol(rest.c_str() + 1, nullptr, 10);
      if (source < 0 || static_cast<size_t>(source) >= nodes.size()) break;
      node.sources.push_back(static_cast<int>(source));
      rest = comma == std::string::npos ? "" : rest.substr(comma + 2);
    }
    node.attr = rest;
    nodes.push_back(std::move(node));
  }
  return nodes;
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

/// The outputs after these replacements, which apply to nodes whose sources are replaced already.
std::vector<int> replaced(Interned& nodes, const std::vector<int>& outputs,
                          const std::unordered_map<int, int>& to) {
  std::unordered_map<int, int> made;
  for (const int node : reachable(nodes, outputs)) {
    std::vector<int> sources;
    for (const int source : nodes[node].sources) sources.push_back(made.at(source));
    int now = nodes.with_sources(node, sources);
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

/// An input that each call gives, not a constant.
bool is_given(const PictureNode& node) { return node.op == "Input" && !node.attr.starts_with('#'); }

} // namespace

GraphPicture graph_picture(const Compilation& of) {
  GraphPicture picture;
  const auto found = of.programs.find(of.chosen.program >= 0 ? of.chosen.program : 0);
  if (found == of.programs.end()) return picture;
  const ProgramRecord& program = found->second;
  picture.nodes = nodes_of(program.graph);
  std::vector<PictureNode>& nodes = picture.nodes;
  const auto node_of_stage = [&](int stage) -> PictureNode* {
    if (stage < 0 || static_cast<size_t>(stage) >= program.stages.size()) return nullptr;
    const int64_t node = program.stages[static_cast<size_t>(stage)].node;
    return node < 0 || static_cast<size_t>(node) >= nodes.size() ? nullptr
                                                                 : &nodes[static_cast<size_t>(node)];
  };
  for (size_t s = 0; s < program.stages.size(); ++s)
    if (PictureNode* node = node_of_stage(static_cast<int>(s))) {
      node->is_stage = true;
      node->is_output = program.stages[s].is_output;
    }
  for (size_t k = 0; k < of.kernels.size(); ++k)
    for (const auto* stages : {&of.kernels[k].stages, &of.kernels[k].inlined})
      for (const int stage : *stages)
        if (PictureNode* node = node_of_stage(stage); node && node->kernel < 0)
          node->kernel = static_cast<int>(k);
  for (const auto& [node, name] : program.origins)
    if (node >= 0 && static_cast<size_t>(node) < nodes.size()) nodes[static_cast<size_t>(node)].origin = name;
  // Views and numbers are part of the kernel that reads them, and pieces of a composed function part of what
  // the user named.
  for (size_t n = nodes.size(); n-- > 0;)
    for (const int source : nodes[n].sources) {
      PictureNode& part = nodes[static_cast<size_t>(source)];
      if (part.origin.empty() && !nodes[n].origin.empty() && !is_given(part)) part.origin = nodes[n].origin;
      if (part.kernel < 0 && !is_given(part)) part.kernel = nodes[n].kernel;
    }
  return picture;
}

RewritePicture rewrite_picture(const Compilation& of) {
  RewritePicture picture;
  if (of.steps.empty()) return picture;
  Interned nodes(of);
  const auto outputs_of = [&](const GraphStep& step) {
    std::vector<int> outputs;
    for (const int64_t id : step.outputs) outputs.push_back(nodes.of(id));
    return outputs;
  };
  struct Step {
    std::string name;
    int before, after;
    std::vector<int> live;
  };
  std::vector<Step> steps{{of.steps[0].name, -1, -1, reachable(nodes, outputs_of(of.steps[0]))}};
  size_t rule = of.steps[0].rewrites;
  for (size_t s = 1; s < of.steps.size(); ++s) {
    const std::vector<int> outputs = outputs_of(of.steps[s - 1]);
    const size_t first = rule;
    std::unordered_map<int, int> to;
    for (; rule < std::min(of.steps[s].rewrites, of.rewrites.size()); ++rule) {
      const RewriteRecord& rewrite = of.rewrites[rule];
      const int before = nodes.of(rewrite.before), after = nodes.of(rewrite.after);
      if (before != after) to[before] = after;
      if ((rule - first) * steps[0].live.size() > kMostWork) continue;
      steps.push_back({rewrite.rule, before, after, reachable(nodes, replaced(nodes, outputs, to))});
    }
    steps.push_back({of.steps[s].name, -1, -1, reachable(nodes, outputs_of(of.steps[s]))});
  }

  std::map<int, int> position; // sources have smaller numbers than their users, and keep that
  for (const Step& step : steps)
    for (const int node : step.live) position.emplace(node, 0);
  for (auto& [node, at] : position) {
    at = static_cast<int>(picture.nodes.size());
    PictureNode shown = nodes[node];
    for (int& source : shown.sources) source = position.at(source);
    picture.nodes.push_back(std::move(shown));
  }
  const auto at = [&](int node) {
    const auto found = position.find(node);
    return found == position.end() ? -1 : found->second;
  };
  std::unordered_set<int> live;
  for (const Step& step : steps) {
    std::unordered_set<int> now;
    for (const int node : step.live) now.insert(at(node));
    if (picture.live.empty()) {
      picture.live.assign(now.begin(), now.end());
      std::sort(picture.live.begin(), picture.live.end());
    } else {
      RewriteStep made{step.name, at(step.before), at(step.after), {}, {}};
      for (const int node : now)
        if (!live.contains(node)) made.added.push_back(node);
      for (const int node : live)
        if (!now.contains(node)) made.removed.push_back(node);
      std::sort(made.added.begin(), made.added.end());
      std::sort(made.removed.begin(), made.removed.end());
      picture.steps.push_back(std::move(made));
    }
    live = std::move(now);
  }
  for (const auto& [id, name] : of.origins)
    if (const int node = at(nodes.of(id)); node >= 0) picture.nodes[static_cast<size_t>(node)].origin = name;
  return picture;
}

std::string duration(double seconds) {
  if (seconds <= 0) return "-";
  if (seconds < 1e-6) return fmt::format("{:.3g} ns", seconds * 1e9);
  if (seconds < 1e-3) return fmt::format("{:.3g} us", seconds * 1e6);
  if (seconds < 1) return fmt::format("{:.3g} ms", seconds * 1e3);
  return fmt::format("{:.3g} s", seconds);
}

std::string bytes_text(double bytes) {
  if (bytes < 1024) return fmt::format("{:.0f} B", bytes);
  if (bytes < 1024 * 1024) return fmt::format("{:.4g} KiB", bytes / 1024);
  return fmt::format("{:.4g} MiB", bytes / (1024 * 1024));
}

std::string moves_text(const std::vector<std::string>& moves) {
  return fmt::format("{}", fmt::join(moves, "; "));
}

std::string fate(const Compilation&, const StateRecord& state) {
  if (!state.error.empty()) return state.error;
  if (state.measured > 0) return "measured";
  if (!state.reason.empty()) return state.reason;
  if (state.kept) return "kept by the beam";
  return state.kind == StateRecord::Kind::Root ? "the start of a kernel's search" : "ranked behind the beam";
}

std::vector<int64_t> improvements(const Compilation& of) {
  std::vector<std::pair<double, int64_t>> order;
  for (const auto& [id, state] : of.states)
    if (state.measured > 0) order.emplace_back(state.measured_at, id);
  std::sort(order.begin(), order.end());
  std::map<std::vector<int>, double> best; // kernels of other stages are no rivals
  std::vector<int64_t> found;
  for (const auto& [at, id] : order) {
    std::vector<int> stages;
    int64_t root = id;
    while (of.states.contains(root) && of.states.at(root).parent >= 0) root = of.states.at(root).parent;
    if (of.states.contains(root)) stages = of.states.at(root).stages;
    const double seconds = of.states.at(id).measured;
    const auto [known, is_new] = best.try_emplace(stages, seconds);
    if (!is_new && seconds >= known->second) continue;
    known->second = seconds;
    found.push_back(id);
  }
  return found;
}

} // namespace lathe::view
