// Constants of few elements, computed one by one: a program for them would take longer to compile.
#pragma once
#include "graph/node.hpp"

namespace lathe::graph {

/// The value of a node that holds no named input and has a static shape: row-major, in new storage. Null if
/// it takes many elements, or ops that combine elements. As for single numbers, the last bit of exp2, log2, sin and cos
/// may differ from a device's.
StorageRef small_constant(const NodeRef& root);

} // namespace lathe::graph
