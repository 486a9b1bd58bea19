// A Gradient node refers by name to values of the graph that it stands in. Here it gets the part of the graph
// that leads from them to y as a body of its own, which its importer then runs like any other.
#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <unordered_set>

#include "onnx/parse.hpp"

namespace lathe::onnx {
namespace {

/// Copies of nodes that the bodies of a graph may take.
constexpr size_t kMaxCopies = 200'000;

using Names = std::vector<std::string>;

/// What a Gradient node says; nothing where attributes are missing or something else, which its importer
/// reports.
struct Request {
  Names given; // xs, then zs
  std::string y;
};
std::optional<Request> request_of(const NodeDef& node) {
  const auto texts = [&](const char* name) {
    auto found = node.attributes.find(name);
    return found == node.attributes.end() ? nullptr : std::get_if<Names>(&found->second);
  };
  auto y = node.attributes.find("y");
  const auto* name = y == node.attributes.end() ? nullptr : std::get_if<std::string>(&y->second);
  if (!texts("xs") || !name) return {};
  Request request{*texts("xs"), *name};
  if (const Names* zs = texts("zs")) request.given.insert(request.given.end(), zs->begin(), zs->end());
  return request;
}

bool is_gradient(const NodeDef& node) { return node.op == "Gradient" && node.domain == kTrainingDomain; }

class Bodies {
public:
  Bodies(const Source& source, GraphDef& graph, const Names& outer)
      : source_(source), graph_(graph), known_(outer) {
    for (const Port& port : graph.inputs) known_.push_back(port.name);
    for (const auto& [name, value] : graph.initialisers) known_.push_back(name);
    for (size_t k = 0; k < graph.nodes.size(); ++k) {
      for (const std::string& output : graph.nodes[k].outputs) {
        maker_.emplace(output, k);
        known_.push_back(output);
      }
      if (is_gradient(graph.nodes[k]) && request_of(graph.nodes[k])) pending_.insert(k);
    }
    maker_.erase("");
  }

  /// A derivative of a derivative waits for the body of what it differentiates.
  void attach() {
    while (!pending_.empty()) {
      std::vector<size_t> done;
      for (const size_t k : pending_)
        if (attach(k)) done.push_back(k);
      if (done.empty())
        source_.fail(fmt::format("node '{}' waits for its own output", graph_.nodes[*pending_.begin()].name));
      for (const size_t k : done) pending_.erase(k);
    }
  }

private:
  bool attach(size_t k) {
    NodeDef& node = graph_.nodes[k];
    const Request request = *request_of(node);
    const std::vector<size_t> between = nodes_between(request);
    if (std::any_of(between.begin(), between.end(), [&](size_t n) { return pending_.count(n) > 0; }))
      return false;
    copies_ += between.size();
    if (copies_ > kMaxCopies)
      source_.fail(fmt::format("its Gradient nodes differentiate more than {} nodes", kMaxCopies));
    auto body = std::make_shared<GraphDef>();
    body->name = node.name;
    const std::unordered_set<std::string> given(request.given.begin(), request.given.end());
    for (const std::string& name : request.given) {
      if (std::find(known_.begin(), known_.end(), name) == known_.end())
        source_.fail(fmt::format("node '{}' differentiates by '{}', which nothing makes", node.name, name));
      body->inputs.emplace_back().name = name;
    }
    for (const size_t n : between) {
      body->nodes.push_back(graph_.nodes[n]);
      for (std::string& output : body->nodes.back().outputs)
        if (given.count(output)) output.clear(); // what is given takes its place
    }
    body->outputs.emplace_back().name = request.y;
    order_nodes(source_, *body, known_);
    node.attributes.insert_or_assign(kGradientBody, std::shared_ptr<const GraphDef>(std::move(body)));
    return true;
  }

  /// The nodes that lead from the given names to y, in the order of the graph.
  std::vector<size_t> nodes_between(const Request& request) const {
    const std::unordered_set<std::string> given(request.given.begin(), request.given.end());
    // Backwards from y, and of what is found whether a given name leads there: once all it reads has been
    // seen.
    struct Visit {
      size_t node, next = 0;
      Names reads;
    };
    std::unordered_map<size_t, bool> leads;
    std::vector<Visit> stack;
    const auto enter = [&](const std::string& name) {
      auto made = maker_.find(name);
      if (given.count(name) || made == maker_.end() || !leads.emplace(made->second, false).second) return;
      stack.push_back({made->second, 0, names_read(graph_.nodes[made->second])});
    };
    enter(request.y);
    while (!stack.empty()) {
      Visit& top = stack.back();
      if (top.next < top.reads.size()) {
        enter(std::string(top.reads[top.next++]));
        continue;
      }
      leads[top.node] = std::any_of(top.reads.begin(), top.reads.end(), [&](const std::string& name) {
        auto made = maker_.find(name);
        return given.count(name) || (made != maker_.end() && leads[made->second]);
      });
      stack.pop_back();
    }
    std::vector<size_t> nodes;
    for (const auto& [node, is_between] : leads)
      if (is_between) nodes.push_back(node);
    std::sort(nodes.begin(), nodes.end());
    return nodes;
  }

  const Source& source_;
  GraphDef& graph_;
  Names known_;
  std::unordered_map<std::string, size_t> maker_;
  std::set<size_t> pending_;
  size_t copies_ = 0;
};

} // namespace

void attach_gradient_bodies(const Source& source, GraphDef& graph, const std::vector<std::string>& outer) {
  if (std::any_of(graph.nodes.begin(), graph.nodes.end(), is_gradient)) Bodies(source, graph, outer).attach();
}

} // namespace lathe::onnx
