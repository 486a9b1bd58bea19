// Trees of few leaves, whose nodes are all asked: no way is followed, so that nothing is gathered.
//
// A tree is a word with a bit for each leaf, those of the holding side of a node before those of the other. A
// node whose comparison fails takes the bits of its holding side away. The leaf that a row ends at is the
// lowest bit left: of two sides of a node on the row's way the wrong one is either taken away or behind the
// right one (C. Lucchese et al., QuickScorer, 2015).
#pragma once
#include <optional>

#include "onnx/ops/ml/tree_ends.hpp"

namespace lathe::onnx {

struct TreeMask {
  struct Question {
    int64_t node;
    uint64_t left; // bits that stay where the node's comparison fails
  };
  std::vector<int64_t> leaves; // of each bit
  std::vector<Question> questions;
};

/// Of the tree below `root`, kNoTree for none; nothing if it has more leaves than a word has bits.
std::optional<TreeMask> tree_mask(const Forest& forest, int64_t root);

/// Whether the words of trees of so many leaves have 32 bits, as numbers of f32 have: both fill the same
/// lanes.
bool fits_narrow(size_t leaves, const Forest& forest);

Ends ends_by_masks(Call& call, const Forest& forest, const std::vector<TreeMask>& masks, const Tensor& x);

} // namespace lathe::onnx
