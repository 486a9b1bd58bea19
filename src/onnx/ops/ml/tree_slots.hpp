// Where each node lies, and where a step from it leads.
//
// Every node is a slot, and the two nodes below it are neighbours: the one where its comparison fails, then
// the one where it holds. A step from slot s is then child[s] + (1 if the comparison holds). Leaves lead to
// themselves, so that all trees take as many steps as the deepest.
#pragma once
#include "onnx/ops/ml/forest.hpp"

namespace lathe::onnx {

/// In a list of roots: a tree of one leaf without votes.
inline constexpr int64_t kNoTree = -1;
/// Of slots, and of weights in a table of leaves and targets.
inline constexpr int64_t kMaxTable = int64_t{1} << 28;

struct Slots {
  std::vector<int64_t> node;     // kNoTree: none
  std::vector<uint32_t> child;   // a leaf's own slot
  std::vector<uint8_t> forwards; // whether it only leads to the slot `child`, which several nodes share
  std::vector<int64_t> roots;
  std::vector<int64_t> steps; // of each root: what the longest way takes

  bool is_leaf(size_t slot) const { return child[slot] == slot; }
};

/// Error(Value) for nodes in a circle, Error(Limit) for more than kMaxTable slots or too many steps.
Slots make_slots(Call& call, const Forest& forest, const std::vector<int64_t>& roots);

} // namespace lathe::onnx
