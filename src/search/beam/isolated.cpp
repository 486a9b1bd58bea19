#include "search/beam/isolated.hpp"

#include <unordered_set>

#include <fmt/format.h>

#include "graph/widened.hpp"
#include "search/beam/unused_name.hpp"

namespace lathe::search {
namespace {

using graph::NodeRef;

/// Whether the node stays: the sum's own product, views, copies and wider forms. Another product is cut like
/// any value.
bool stays(const NodeRef& node, const NodeRef& product) {
  return node == product || node->op == Op::View || node->op == Op::Contiguous || graph::is_widened(node);
}

/// The nodes reached from the root through views, copies and its product alone, users before sources.
std::vector<NodeRef> reached_from(const NodeRef& root, const NodeRef& product) {
  std::vector<NodeRef> reached{root};
  std::unordered_set<const graph::Node*> seen{root.get()};
  for (size_t at = 0; at < reached.size(); ++at) {
    const NodeRef node = reached[at];
    if (at > 0 && !stays(node, product)) continue;
    for (const NodeRef& s : node->sources)
      if (seen.insert(s.get()).second) reached.push_back(s);
  }
  return reached;
}

} // namespace

NodeRef isolated(const NodeRef& root, const OrderOf& order_of) {
  const NodeRef product = graph::summed_product(root);
  const std::vector<NodeRef> reached = reached_from(root, product);
  const auto is_cut = [&](const NodeRef& node) {
    return node != root && !stays(node, product) && node->op != Op::Input && node->op != Op::Const;
  };
  const std::string prefix = unused_prefix("operand", reached);
  const auto order = [&](const NodeRef& node) { return order_of ? order_of(node) : nullptr; };
  int count = 0;
  const NodeRef whole = graph::rebuild(
      {root},
      [&](const NodeRef& original, NodeRef rebuilt) -> NodeRef {
        const graph::AxisOrder* stored = order(original);
        if (is_cut(original)) {
          Shape shape = original->shape;
          if (stored)
            for (size_t d = 0; d < shape.size(); ++d) shape[d] = original->shape[(*stored)[d]];
          const NodeRef made = graph::input(fmt::format("{}{}", prefix, count++), original->dtype, shape);
          return stored ? graph::permuted_back(made, *stored) : made;
        }
        const bool computed = original == root || original->op == Op::Contiguous;
        return stored && computed ? graph::stored_in_order(rebuilt, *stored) : rebuilt;
      },
      is_cut)[0];
  const graph::AxisOrder* stored = order(root);
  return stored ? graph::permuted(whole, *stored) : whole;
}

std::vector<NodeRef> stored_around(const NodeRef& root) {
  const NodeRef product = graph::summed_product(root);
  std::vector<NodeRef> stored = reached_from(root, product);
  std::erase_if(stored, [&](const NodeRef& node) {
    return node == product || node->op == Op::View || node->op == Op::Input || node->op == Op::Const;
  });
  return stored;
}

} // namespace lathe::search
