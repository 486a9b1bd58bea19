// One sum of a program by itself, for a form to be judged without the rest.
#pragma once
#include <functional>

#include "graph/storage_order.hpp"

namespace lathe::search {

/// The order in which a value is stored; null: as its axes are.
using OrderOf = std::function<const graph::AxisOrder*(const graph::NodeRef&)>;

/// What `root` (a Reduce or Transform) computes: views, copies and the product that
/// it adds up stay, what those are computed from becomes named inputs. Values are read and written in the
/// orders that `order_of` gives, if it is set.
graph::NodeRef isolated(const graph::NodeRef& root, const OrderOf& order_of = {});
/// The values that isolated(root) makes inputs of or copies, and the root itself.
std::vector<graph::NodeRef> stored_around(const graph::NodeRef& root);

} // namespace lathe::search
