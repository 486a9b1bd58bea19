// Takes one sum out of a program, so that a form of it is judged without the rest.
#pragma once
#include <functional>

#include "graph/forms/storage_order.hpp"

namespace lathe::search {

/// Returns the order of axes in which a value is stored; null: the order of its shape.
using OrderOf = std::function<const graph::AxisOrder*(const graph::NodeRef&)>;

/// A graph that computes `root` (a Reduce or Transform) alone. It keeps the views, the copies and the product
/// that `root` adds up; the values that these are computed from become named inputs. If `order_of` is set,
/// values are read and written in the orders that it gives.
graph::NodeRef isolated(const graph::NodeRef& root, const OrderOf& order_of = {});
/// The root, and the values that isolated(root) copies or turns into inputs.
std::vector<graph::NodeRef> stored_around(const graph::NodeRef& root);

} // namespace lathe::search
