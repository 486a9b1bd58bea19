#include "compile/view/print.hpp"

#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "compile/view/picture.hpp"
#include "lathe/error.hpp"

namespace lathe::view {
namespace {

constexpr int kBar = 60; // characters of the widest bar

std::string node_text(const std::vector<PictureNode>& nodes, size_t n) {
  const PictureNode& node = nodes[n];
  std::string arguments;
  for (const int source : node.sources)
    arguments += fmt::format("{}%{}", arguments.empty() ? "" : ", ", source);
  if (!node.attr.empty()) arguments += (arguments.empty() ? "" : ", ") + node.attr;
  return fmt::format("%{} = {}({}) : {}{}{}", n, node.op, arguments, node.type,
                     node.is_output ? "  output" : "", node.origin.empty() ? "" : "  # " + node.origin);
}

std::string terms_text(const Terms& terms, double all) {
  std::string text;
  for (const auto& [name, seconds] : terms)
    text += fmt::format("  {:<16} {:>10} {:>4.0f} %\n", name, duration(seconds),
                        all > 0 ? 100 * seconds / all : 0);
  return text;
}

void print_state(const Compilation& of, int64_t id, int depth,
                 const std::map<int64_t, std::vector<int64_t>>& children, std::string& text) {
  // Only what was kept or measured has children worth a line; the rest are counted.
  struct Line {
    int64_t id;
    int depth;
  };
  std::vector<Line> stack{{id, depth}};
  while (!stack.empty()) {
    const Line line = stack.back();
    stack.pop_back();
    const StateRecord& state = of.states.at(line.id);
    text += fmt::format("{:{}}#{} {}  predicted {}{}  [{}]\n", "", 2 * line.depth, line.id,
                        state.moves.empty() ? "start" : moves_text(state.moves), duration(state.seconds),
                        state.measured > 0 ? "  measured " + duration(state.measured) : "", fate(of, state));
    const auto found = children.find(line.id);
    if (found == children.end()) continue;
    size_t left_out = 0;
    std::vector<Line> next;
    for (const int64_t child : found->second) {
      const StateRecord& made = of.states.at(child);
      if (made.kept || made.measured > 0 || !made.error.empty() || children.contains(child))
        next.push_back({child, line.depth + 1});
      else
        ++left_out;
    }
    if (left_out)
      text += fmt::format("{:{}}... {} more, ranked behind\n", "", 2 * (line.depth + 1), left_out);
    stack.insert(stack.end(), next.rbegin(), next.rend());
  }
}

} // namespace

std::string print_graph(const Compilation& of) {
  const GraphPicture picture = graph_picture(of);
  std::string text;
  const auto list = [&](int kernel) {
    for (size_t n = 0; n < picture.nodes.size(); ++n)
      if (picture.nodes[n].kernel == kernel) text += "  " + node_text(picture.nodes, n) + "\n";
  };
  text += "inputs and constants\n";
  list(-1);
  for (size_t k = 0; k < of.kernels.size(); ++k) {
    text += fmt::format("kernel {}, predicted {}\n", of.kernels[k].name, duration(of.kernels[k].predicted));
    list(static_cast<int>(k));
  }
  return text;
}

std::string print_rewrites(const Compilation& of) {
  const RewritePicture picture = rewrite_picture(of);
  std::string text;
  size_t live = picture.live.size();
  if (!of.steps.empty()) text += fmt::format("{}: {} nodes\n", of.steps[0].name, live);
  std::vector<PictureNode> nodes = picture.nodes; // as they are after the step
  for (const RewriteStep& step : picture.steps) {
    live += step.added.size() - step.removed.size();
    const bool is_same = step.added.empty() && step.removed.empty() && step.rewired.empty();
    text += fmt::format("{}: {} nodes{}\n", step.name, live, is_same ? ", unchanged" : "");
    for (const int node : step.removed) text += "  - " + node_text(nodes, static_cast<size_t>(node)) + "\n";
    for (const int node : step.added)
      nodes[static_cast<size_t>(node)] = picture.nodes[static_cast<size_t>(node)];
    for (const auto& [node, sources] : step.rewired) nodes[static_cast<size_t>(node)].sources = sources;
    for (const int node : step.added) text += "  + " + node_text(nodes, static_cast<size_t>(node)) + "\n";
    for (const auto& [node, sources] : step.rewired)
      if (!std::binary_search(step.added.begin(), step.added.end(), node))
        text += "  ~ " + node_text(nodes, static_cast<size_t>(node)) + "\n";
  }
  return text;
}

std::string print_search(const Compilation& of) {
  std::string text;
  std::map<int64_t, std::vector<int64_t>> children;
  size_t measured = 0, rejected = 0;
  for (const auto& [id, state] : of.states) {
    if (state.parent >= 0) children[state.parent].push_back(id);
    measured += state.measured > 0;
    rejected += !state.error.empty();
  }
  text += fmt::format("plan from {}, predicted {}, measured {}\n", of.chosen.how,
                      duration(of.chosen.predicted), duration(of.chosen.measured));
  text += fmt::format(
      "{} searches, {} states, {} measured, {} rejected by measuring, {} proposals not legal, {} that "
      "led to known states, {} only counted\n",
      of.searches.size(), of.states.size(), measured, rejected, of.refused.size(), of.repeated, of.unlisted);
  std::map<std::string, int> reasons;
  for (const RefusedRecord& refused : of.refused) ++reasons[refused.reason];
  std::vector<std::pair<int, std::string>> ranked;
  for (const auto& [reason, count] : reasons) ranked.emplace_back(-count, reason);
  std::sort(ranked.begin(), ranked.end());
  for (size_t k = 0; k < std::min<size_t>(ranked.size(), 10); ++k)
    text += fmt::format("  {:>6} {}\n", -ranked[k].first, ranked[k].second);
  text += "best so far\n";
  for (const int64_t id : improvements(of)) {
    const StateRecord& state = of.states.at(id);
    text += fmt::format("  {:>8.3f} s  #{:<6} measured {:>9}  predicted {:>9}  {}\n", state.measured_at, id,
                        duration(state.measured), duration(state.seconds), moves_text(state.moves));
  }
  for (const auto& [id, search] : of.searches) {
    text += fmt::format("search {}{}, {} to {} s: predicted {}, measured {}\n", id,
                        search.in < 0 ? "" : fmt::format(" in search {}", search.in), search.begins,
                        search.ends, duration(search.predicted), duration(search.measured));
    for (const auto& [state_id, state] : of.states)
      if (state.search == id && state.parent < 0) print_state(of, state_id, 1, children, text);
  }
  return text;
}

std::string print_kernel(const Compilation& of, const std::string& name) {
  std::string known;
  for (size_t k = 0; k < of.kernels.size(); ++k) {
    const KernelRecord& kernel = of.kernels[k];
    known += (known.empty() ? "" : ", ") + kernel.name;
    if (kernel.name != name) continue;
    std::string text = fmt::format(
        "kernel {}: predicted {}, at least {} on this machine\n{:.4g} operations, {}\n", kernel.name,
        duration(kernel.predicted), duration(kernel.limit), kernel.flops, bytes_text(kernel.bytes));
    for (const KernelRecord::Param& param : kernel.params)
      text += fmt::format("  {} {} : {}\n", param.written ? "writes" : "reads ", param.name, param.type);
    if (const Explanation why = explanation(of); !why.kernels.empty())
      text += "why\n" + to_string(why.kernels[k]);
    else if (const auto terms = of.chosen.terms.find(kernel.hash); terms != of.chosen.terms.end())
      text += "cost\n" + terms_text(terms->second, kernel.predicted);
    text += "moves\n";
    for (const std::string& move : kernel.moves) text += "  " + move + "\n";
    text += "loops\n" + kernel.ast;
    for (const auto& [language, source] : kernel.sources) text += fmt::format("\n{}\n{}", language, source);
    return text;
  }
  throw Error(ErrorKind::Name, fmt::format("view: no kernel '{}', expected one of {}", name, known));
}

std::string print_timeline(const Compilation& of) {
  std::string text = "passes\n";
  for (const PassRecord& pass : of.passes)
    text += fmt::format("  {:>10.6f} s {:>10}  {}\n", pass.start, duration(pass.seconds), pass.name);
  double longest = 0;
  for (const LaunchRecord& launch : of.launches)
    if (launch.kernel >= 0 && !launch.is_part) longest = std::max(longest, launch.end - launch.start);
  if (const Explanation why = explanation(of); !why.kernels.empty()) text += to_string(why.savings);
  text += "launches\n";
  for (const LaunchRecord& launch : of.launches) {
    const double seconds = launch.end - launch.start;
    if (launch.kernel < 0) {
      text += fmt::format("  {:>10.6f} s {:>10}  thread {}  the whole run\n", launch.start, duration(seconds),
                          launch.thread);
      continue;
    }
    if (launch.is_part) {
      text += fmt::format("  {:>10.6f} s {:>10}  thread {}  {:<24} a part\n", launch.start, duration(seconds),
                          launch.thread, of.kernels[static_cast<size_t>(launch.kernel)].name);
      continue;
    }
    text += fmt::format(
        "  {:>10.6f} s {:>10}  thread {}  {:<24} {:>8.2f} GFLOP/s {:>8.2f} GB/s  {}\n", launch.start,
        duration(seconds), launch.thread, of.kernels[static_cast<size_t>(launch.kernel)].name,
        seconds > 0 ? launch.flops / seconds * 1e-9 : 0, seconds > 0 ? launch.bytes / seconds * 1e-9 : 0,
        std::string(longest > 0 ? static_cast<size_t>(kBar * seconds / longest) : 0, '#'));
  }
  return text;
}

std::string print_arena(const Compilation& of) {
  std::string text =
      fmt::format("arena {}, {} without reuse\n", bytes_text(static_cast<double>(of.arena_bytes)),
                  bytes_text(static_cast<double>(of.naive_bytes)));
  for (const BufferRecord& buffer : of.buffers) {
    text += fmt::format("  {:<16} {:<7} {:>12}", buffer.name, buffer.home,
                        bytes_text(static_cast<double>(buffer.bytes)));
    if (buffer.home == "arena") {
      text += fmt::format("  at {:>10}  launches {} to {}  ", buffer.offset, buffer.first, buffer.last);
      for (int launch = 0; launch < std::min<int>(static_cast<int>(of.kernels.size()), 2 * kBar); ++launch)
        text += launch >= buffer.first && launch <= buffer.last ? '#' : '.';
    }
    text += "\n";
  }
  return text;
}

} // namespace lathe::view
