// Runs the rules of rules.hpp over a whole graph, sources first, until nothing changes.
#include <array>
#include <atomic>
#include <cstdio>

#include <fmt/format.h>

#include "core/debug.hpp"
#include "graph/rules.hpp"

namespace lathe::graph {
namespace {

constexpr int kMostPasses = 64;
constexpr size_t kMostStructural = 16;

const RuleEngine<GraphTraits>& engine() {
  static const RuleEngine<GraphTraits> e("graph", graph_rules());
  return e;
}

std::array<std::atomic<uint64_t>, kMostStructural> structural_hits;

NodeRef apply_structural(const NodeRef& node, const RewriteTrace& trace) {
  const auto rules = structural_rules();
  for (size_t i = 0; i < rules.size(); ++i) {
    NodeRef after = rules[i].apply(node);
    if (!after || after == node) continue;
    structural_hits[i].fetch_add(1, std::memory_order_relaxed);
    if (trace) trace(rules[i].name, node, after);
    return after;
  }
  return {};
}

std::string brief(const NodeRef& n) {
  return fmt::format("{} : {}{}", to_string(n->op), to_string(n->dtype), to_string(n->shape));
}

} // namespace

std::vector<NodeRef> simplify(const std::vector<NodeRef>& outputs, const RewriteTrace& given) {
  RewriteTrace trace = given;
  if (!trace && debug_level() >= 4)
    trace = [](std::string_view rule, const NodeRef& before, const NodeRef& after) {
      fmt::print(stderr, "graph: {}: {} -> {}\n", rule, brief(before), brief(after));
    };
  RuleEngine<GraphTraits>::Trace rule_trace;
  if (trace)
    rule_trace = [&](const GraphRule& rule, const NodeRef& before, const NodeRef& after) {
      trace(rule.name, before, after);
    };

  std::vector<NodeRef> current = outputs;
  for (int pass = 0; pass < kMostPasses; ++pass) {
    std::vector<NodeRef> next = rebuild(current, [&](const NodeRef&, NodeRef node) {
      node = engine().rewrite(std::move(node), rule_trace);
      NodeRef after = apply_structural(node, trace);
      return after ? after : node;
    });
    if (next == current) return next;
    current = std::move(next);
  }
  throw InternalError(fmt::format("graph rules found no fixed point in {} passes", kMostPasses));
}

std::vector<std::pair<std::string_view, uint64_t>> simplify_hits() {
  std::vector<std::pair<std::string_view, uint64_t>> hits;
  for (size_t i = 0; i < graph_rules().size(); ++i)
    hits.emplace_back(graph_rules()[i].name, engine().hits(i));
  for (size_t i = 0; i < structural_rules().size(); ++i)
    hits.emplace_back(structural_rules()[i].name, structural_hits[i].load());
  return hits;
}

} // namespace lathe::graph
