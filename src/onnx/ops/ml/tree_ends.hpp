// The leaf that each row ends at in each tree, as tensor arithmetic.
#pragma once
#include <cstdint>
#include <vector>

#include "onnx/ops/ml/forest.hpp"

namespace lathe::onnx {

struct Ends {
  Tensor place;              // [rows, trees]: where in `node` the leaf is
  std::vector<int64_t> node; // leaves; kNoTree in places that no row ends at, or that stand for no tree
};

/// How trees are asked.
enum class Asking {
  OnTheWay, // one node after the other, from the root to the leaf: all trees as often as the deepest
  AllNodes, // of trees of few leaves: all trees as often as the one of most nodes
};

/// Of the trees below `roots`, kNoTree for none, and the rows of x. Error(Value) for nodes in a circle,
/// Error(Shape) for features that x does not have, Error(Limit) for too many nodes.
Ends find_ends(Call& call, const Forest& forest, const std::vector<int64_t>& roots, const Tensor& x,
               Asking asking);

struct TreeCost {
  Asking asking;     // the cheaper way
  int64_t questions; // of one row
};
std::vector<TreeCost> costs_of(Call& call, const Forest& forest, const std::vector<int64_t>& roots,
                               const Tensor& x);

} // namespace lathe::onnx
