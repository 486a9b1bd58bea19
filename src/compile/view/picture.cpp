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

double median_seconds(const Compilation& of, size_t kernel) {
  std::vector<double> times;
  for (const LaunchRecord& launch : of.launches)
    if (launch.kernel == static_cast<int64_t>(kernel) && !launch.is_part)
      times.push_back(launch.end - launch.start);
  if (times.empty()) return 0;
  const auto middle = times.begin() + static_cast<long>(times.size() / 2);
  std::nth_element(times.begin(), middle, times.end());
  return *middle;
}

Explanation explanation(const Compilation& of) {
  Explanation out{of.explained, of.savings};
  for (size_t k = 0; k < out.kernels.size(); ++k) out.kernels[k].measured = median_seconds(of, k);
  if (std::ranges::any_of(out.kernels, [](const KernelExplanation& k) { return k.measured > 0; }))
    out.savings = largest_savings(out.kernels);
  return out;
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
