#include "graph/byte_table.hpp"

#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "graph/operations.hpp"
#include "graph/repeated.hpp"

namespace lathe::graph {
namespace {

constexpr int kEntries = 256;
constexpr size_t kMostFunctionNodes = 512; // of a function
constexpr int64_t kLeastElements = 2048;   // of the tensor; a table is computed for each of its entries
/// Operations of a function that cost as much as a look-up, which loads one lane after the other.
constexpr double kLeastOperations = 24;

bool is_byte(const NodeRef& n) { return n->dtype == DType::U8 || n->dtype == DType::I8; }

const Shape& table_shape() {
  static const Shape shape{kEntries};
  return shape;
}

/// Whether the node looks bytes up in a table: its index is the second source.
bool is_look_up(const NodeRef& n) {
  return n->op == Op::Gather && is_byte(n) && n->sources[0]->shape == table_shape();
}

/// The sources that a node computes its elements from, each from the one at its place; none for other nodes.
std::span<const NodeRef> operands(const NodeRef& n) {
  if (is_elementwise(n->op)) return n->sources;
  if (is_look_up(n)) return std::span(n->sources).last(1);
  return {};
}

/// Whether the node is data, or a view of it.
bool is_data(const NodeRef& node) {
  const Node* at = node.get();
  while (at->op == Op::View) at = at->sources[0].get();
  const auto* input = std::get_if<InputAttr>(&at->attr);
  return input && input->data;
}

/// Calls visit() with the root and all that it is computed from, operands first; nodes that ends() are
/// visited without theirs. False, and not all are visited, if there are too many.
template <class Visited, class Ends, class Visit>
bool operands_first(const NodeRef& root, const Visited& visited, const Ends& ends, const Visit& visit) {
  std::vector<std::pair<NodeRef, bool>> stack{{root, false}};
  size_t entered = 0;
  while (!stack.empty()) {
    const auto [node, operands_visited] = stack.back();
    stack.pop_back();
    if (visited(node)) continue;
    if (operands_visited || ends(node)) {
      visit(node);
      continue;
    }
    if (++entered > kMostFunctionNodes) return false;
    stack.emplace_back(node, true);
    for (const NodeRef& s : operands(node)) stack.emplace_back(s, false);
  }
  return true;
}

/// What the elements of a node are functions of.
class Dependence {
public:
  /// The one tensor of 8 bits that the node's elements are a function of: the first that all others are made
  /// from. Null if there is none.
  NodeRef source_of(const NodeRef& root) {
    const bool all = operands_first(
        root, [&](const NodeRef& node) { return found_.contains(node.get()); },
        [](const NodeRef& node) { return operands(node).empty(); },
        [&](const NodeRef& node) { found_.emplace(node.get(), found_of(node)); });
    if (!all) return {};
    const Found& found = found_.at(root.get());
    return found.source == root ? NodeRef() : found.source;
  }

private:
  /// Numbers have no source. What depends on several tensors, or on one of other dtypes, is `mixed`.
  struct Found {
    NodeRef source;
    bool mixed = false;
  };

  Found found_of(const NodeRef& node) const {
    if (repeated_over(node, table_shape())) return {};
    Found all;
    all.mixed = operands(node).empty();
    for (const NodeRef& s : operands(node)) {
      const Found& one = found_.at(s.get());
      all.mixed |= one.mixed || (one.source && all.source && one.source != all.source);
      if (one.source) all.source = one.source;
    }
    if (!all.mixed) return all;
    return is_byte(node) ? Found{node, false} : Found{{}, true};
  }

  std::unordered_map<const Node*, Found> found_;
};

/// The function of `source` that `root` computes, of each byte.
class Table {
public:
  explicit Table(const NodeRef& source) {
    const NodeRef bytes = cast(iota(0, DType::I32, table_shape()), DType::U8);
    made_[source.get()] = source->dtype == DType::U8 ? bytes : bitcast(bytes, source->dtype);
  }

  /// Null if the function is too long.
  NodeRef of(const NodeRef& root) {
    const bool all = operands_first(
        root, [&](const NodeRef& node) { return made_.contains(node.get()); },
        [](const NodeRef& node) { return static_cast<bool>(repeated_over(node, table_shape())); },
        [&](const NodeRef& node) { made_[node.get()] = made_of(node); });
    return all ? made_.at(root.get()) : NodeRef();
  }
  double operations() const { return operations_; }

private:
  NodeRef made_of(const NodeRef& node) {
    if (NodeRef number = repeated_over(node, table_shape())) return number;
    operations_ += operations_of(*node);
    std::vector<NodeRef> sources;
    if (is_look_up(node)) sources.push_back(node->sources[0]);
    for (const NodeRef& s : operands(node)) sources.push_back(made_.at(s.get()));
    return with_sources(node, std::move(sources));
  }
  static double operations_of(const Node& n) {
    if (n.op == Op::Gather) return kLeastOperations;
    const bool is_wide = size_of(n.dtype) == 8 || size_of(n.sources.back()->dtype) == 8;
    return graph::operations(n.op) * (is_wide ? 2 : 1); // a vector holds half as many numbers of 64 bits
  }

  double operations_ = 0;
  std::unordered_map<const Node*, NodeRef> made_;
};

} // namespace

NodeRef byte_table(const NodeRef& node) {
  if (!is_byte(node) || !is_elementwise(node->op)) return {};
  if (num_elements(node->shape).hi() < kLeastElements) return {}; // the most that there can be
  const NodeRef source = Dependence().source_of(node);
  if (!source || is_data(source)) return {}; // functions of data are folded
  Table table(source);
  NodeRef entries = table.of(node);
  if (!entries || table.operations() < kLeastOperations) return {};
  const NodeRef bytes = source->dtype == DType::U8 ? source : bitcast(source, DType::U8);
  return gather(std::move(entries), cast(bytes, DType::I32));
}

} // namespace lathe::graph
