// Storage orders: in which order of its axes a value is computed and stored. A convolution written for
// [N, C, H, W] reads a few channels of many pixels; where the channels lie innermost, lanes run along them.
//
// An order holds for all that is computed element by element from a value, and from what it is computed: only
// a sum over the innermost axis ends it. So a value with all that follows is one family, stored in one way.
#pragma once
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "graph/node.hpp"

namespace lathe::graph {

/// A node's axes, outermost first.
using AxisOrder = std::vector<int>;
using StorageOrders = std::unordered_map<const Node*, AxisOrder>;

/// Who reads whom in a graph, for families of values to be followed both ways.
class Families {
public:
  explicit Families(const std::vector<NodeRef>& outputs);
  /// The seed's family when its axis `axis` is stored innermost, each member with its order. Outputs of the
  /// graph keep their order: it is the user's. Empty if the seed computes nothing or has no static shape.
  StorageOrders around(const NodeRef& seed, int axis) const;

private:
  bool can_be_ordered(const NodeRef& node) const;
  bool feeds_sums_of_products(const NodeRef& node) const;
  std::unordered_map<const Node*, std::vector<NodeRef>> users_; // views are looked through
  std::unordered_set<const Node*> outputs_;
};

/// The same value and shape, computed and stored in this order.
NodeRef stored_in_order(const NodeRef& node, const AxisOrder& order);

/// `node` seen with its axes in this order, and the inverse.
NodeRef permuted(const NodeRef& node, const AxisOrder& order);
NodeRef permuted_back(const NodeRef& node, const AxisOrder& order);

/// The product that a sum of products adds up, perhaps through views; null for other nodes.
NodeRef summed_product(const NodeRef& node);
/// Whether no longer axis lies inside this one.
bool is_innermost(const NodeRef& node, int axis);
/// Of a sum of products of a computed value with constants: the value, and its axis along which most terms
/// are added up. Nothing for other nodes.
struct SummedAxis {
  NodeRef value;
  int axis;
  int64_t terms;
};
std::optional<SummedAxis> summed_axis(const NodeRef& node);

} // namespace lathe::graph
