#include "onnx/ops/ml/tree_ends.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include "lathe/functions.hpp"
#include "onnx/ops/ml/tree_masks.hpp"
#include "onnx/ops/ml/tree_questions.hpp"
#include "onnx/ops/ml/tree_slots.hpp"
#include "onnx/ops/values.hpp"

namespace lathe::onnx {
namespace {

/// What a step reads of slots.
struct Nodes {
  Tensor asked, threshold, child;

  Nodes at(const Tensor& slots) const {
    return {asked.take(slots), threshold.take(slots), child.take(slots)};
  }
};

/// Where the rows end that walk from slot to slot: all as many steps as the deepest tree takes.
Ends ends_by_steps(Call& call, const Forest& forest, const std::vector<int64_t>& roots, const Tensor& x) {
  const Slots slots = make_slots(call, forest, roots);
  Questions questions(call, forest, x);
  for (size_t slot = 0; slot < slots.node.size(); ++slot) {
    if (slots.is_leaf(slot) || slots.forwards[slot])
      questions.add_none();
    else
      questions.add(forest.nodes[slots.node[slot]]);
  }
  Ends ends;
  for (size_t slot = 0; slot < slots.node.size(); ++slot)
    ends.node.push_back(slots.is_leaf(slot) ? slots.node[slot] : kNoTree);
  const Nodes nodes{questions.asked(), questions.threshold(), Tensor::from(slots.child)};
  const auto step = [&](const Nodes& here, const Tensor& value) {
    return here.child + questions.answer(here.asked, here.threshold, value).cast(DType::U32);
  };
  const Tensor first = Tensor::from(slots.roots).cast(DType::U32);
  const int64_t steps = *std::max_element(slots.steps.begin(), slots.steps.end());
  ends.place = first.expand({x.size(0), static_cast<int64_t>(roots.size())});
  for (int64_t k = 0; k < steps; ++k) {
    // All rows begin at the roots: what is read there has no axis of rows.
    const Nodes here = nodes.at(k == 0 ? first : ends.place);
    const Tensor feature = questions.feature(here.asked);
    ends.place = step(here, k == 0 ? x.take(feature, 1) : x.gather(1, feature));
  }
  return ends;
}

/// Whether it is cheaper to ask all nodes: no element is gathered then, but rows fill the lanes of vectors.
bool is_cheaper(const TreeMask& mask, int64_t steps, const Forest& forest, const Tensor& x) {
  constexpr int64_t kFewRows = 4;
  // Nodes that are asked in the time of one step. Measured on a Zen 3: 3.3 ns a step of one row; a question
  // 0.21 ns where the words are as wide as the numbers, 0.35 ns where they are wider, or numbers are f64.
  const int64_t nodes = fits_narrow(mask.leaves.size(), forest) ? 12 : 8;
  return (!x.shape()[0].is_const() || x.shape()[0].value() > kFewRows) &&
         static_cast<int64_t>(mask.questions.size()) <= nodes * steps;
}

} // namespace

Ends find_ends(Call& call, const Forest& forest, const std::vector<int64_t>& roots, const Tensor& x,
               Asking asking) {
  if (asking == Asking::OnTheWay) return ends_by_steps(call, forest, roots, x);
  std::vector<TreeMask> masks;
  for (const int64_t root : roots) masks.push_back(tree_mask(forest, root).value());
  return ends_by_masks(call, forest, masks, x);
}

std::vector<TreeCost> costs_of(Call& call, const Forest& forest, const std::vector<int64_t>& roots,
                               const Tensor& x) {
  const std::vector<int64_t> steps = make_slots(call, forest, roots).steps;
  std::vector<TreeCost> costs;
  for (size_t k = 0; k < roots.size(); ++k) {
    const std::optional<TreeMask> mask = tree_mask(forest, roots[k]);
    costs.push_back(mask && is_cheaper(*mask, steps[k], forest, x)
                        ? TreeCost{Asking::AllNodes, static_cast<int64_t>(mask->questions.size())}
                        : TreeCost{Asking::OnTheWay, steps[k]});
  }
  return costs;
}

} // namespace lathe::onnx
