// A storage order is the order of axes in which a value is computed and stored. A convolution written for [N,
// C, H, W] reads a few channels of many pixels; if the channels lie innermost, lanes run along them.
//
// A value, the values computed from it and the values that it is computed from are one family, stored in one
// order. A family ends at each sum of products: the operands of the sum are not of the sum's family.
#pragma once
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "graph/node.hpp"

namespace lathe::graph {

/// A node's axes, outermost first.
using AxisOrder = std::vector<int>;
using StorageOrders = std::unordered_map<const Node*, AxisOrder>;

/// The users of each value of a graph, so that families can be followed both ways.
class Families {
public:
  explicit Families(const std::vector<NodeRef>& outputs);
  /// The seed's family, each member with its order, if the seed's axis `axis` is stored innermost. Outputs of
  /// the graph keep the user's order. Empty if the seed can't be reordered: it is an output, computes nothing
  /// or has no static shape, for example.
  StorageOrders around(const NodeRef& seed, int axis) const;

private:
  bool can_be_ordered(const NodeRef& node) const;
  bool feeds_sums_of_products(const NodeRef& node) const;
  std::unordered_map<const Node*, std::vector<NodeRef>> users_; // keyed by the value behind any views
  std::unordered_set<const Node*> outputs_;
};

/// The same value and shape, computed and stored in this order.
NodeRef stored_in_order(const NodeRef& node, const AxisOrder& order);

/// `node` seen with its axes in this order, and the inverse.
NodeRef permuted(const NodeRef& node, const AxisOrder& order);
NodeRef permuted_back(const NodeRef& node, const AxisOrder& order);

/// The product that a sum of products adds up, perhaps through views; null for other nodes.
NodeRef summed_product(const NodeRef& node);
/// Whether every axis inside this one has size 1.
bool is_innermost(const NodeRef& node, int axis);
/// In a sum of products of a computed value with constants: the value, and its axis along which the sum has
/// most terms. summed_axis() gives nothing for other nodes.
struct SummedAxis {
  NodeRef value;
  int axis;
  int64_t terms;
};
std::optional<SummedAxis> summed_axis(const NodeRef& node);

} // namespace lathe::graph
