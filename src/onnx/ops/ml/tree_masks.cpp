#include "onnx/ops/ml/tree_masks.hpp"

#include <algorithm>
#include <utility>

#include "lathe/functions.hpp"
#include "onnx/ops/ml/tree_questions.hpp"
#include "onnx/ops/ml/tree_slots.hpp"

namespace lathe::onnx {
namespace {

constexpr size_t kMostLeaves = 64;

class MaskMaker {
public:
  explicit MaskMaker(const Forest& forest) : forest_(forest) {}

  /// Nothing for too many leaves, and for nodes in a circle, which have no end of them.
  std::optional<TreeMask> make(int64_t root) {
    made_ = {};
    if (!visit(root, 0)) return {};
    return std::move(made_);
  }

private:
  bool visit(int64_t node, size_t depth) {
    if (depth > kMostLeaves) return false;
    if (node == kNoTree || forest_.nodes[node].branch == Branch::Leaf) {
      made_.leaves.push_back(node);
      return made_.leaves.size() <= kMostLeaves;
    }
    const size_t begin = made_.leaves.size();
    if (!visit(forest_.nodes[node].holds, depth + 1)) return false;
    const size_t count = made_.leaves.size() - begin;
    const uint64_t holding = (count == kMostLeaves ? ~uint64_t{0} : (uint64_t{1} << count) - 1) << begin;
    made_.questions.push_back({node, ~holding});
    return visit(forest_.nodes[node].fails, depth + 1);
  }

  const Forest& forest_;
  TreeMask made_;
};

/// What each question of a list of trees leaves of a tree's bits, by what the value is to the threshold.
class Answers {
public:
  /// `narrow`: words of 32 bits, as wide as numbers of f32, so that both fill the lanes of a vector.
  Answers(const Forest& forest, bool narrow) : forest_(forest), narrow_(narrow) {}

  void add(const TreeMask::Question& question) {
    left_.push_back(question.left);
    relations_.push_back(relations(forest_.nodes[question.node]));
  }
  void add_none() {
    left_.push_back(kAll);
    relations_.push_back(0);
  }

  Tensor words(const Shape& table, const Tensor& value, const Tensor& threshold) const {
    const Tensor all = word({kAll}, {});
    if (const std::optional<Branch> branch = one_branch(forest_)) {
      const Tensor known = where(holds(*branch, value, threshold), all, word(left_, table));
      const bool nan_fails =
          branch != Branch::NotEqual &&
          std::none_of(relations_.begin(), relations_.end(), [](uint32_t r) { return r & kMissing; });
      return nan_fails ? known : where(value != value, after(kMissing, table), known);
    }
    return where(value < threshold, after(kBelow, table),
                 where(value > threshold, after(kAbove, table),
                       where(value != value, after(kMissing, table), after(kSame, table))));
  }

  static constexpr uint64_t kAll = ~uint64_t{0};

private:
  Tensor word(const std::vector<uint64_t>& words, const Shape& shape) const {
    if (!narrow_) return Tensor::from(words, shape);
    return Tensor::from(std::vector<uint32_t>(words.begin(), words.end()), shape);
  }
  Tensor after(Relation relation, const Shape& table) const {
    std::vector<uint64_t> words;
    for (size_t k = 0; k < left_.size(); ++k) words.push_back(relations_[k] & relation ? kAll : left_[k]);
    return word(words, table);
  }

  const Forest& forest_;
  bool narrow_;
  std::vector<uint64_t> left_;
  std::vector<uint32_t> relations_;
};

/// The number of the lowest bit that is set. A power of two is exact in floating point, and its exponent the
/// number.
Tensor lowest_bit(const Tensor& word) {
  const Tensor lowest = word & word.neg();
  if (word.dtype() == DType::U32)
    return (lowest.cast(DType::F32).bitcast(DType::U32) >> Tensor::full({}, uint32_t{23})) -
           Tensor::full({}, uint32_t{127});
  return (lowest.cast(DType::F64).bitcast(DType::U64) >> Tensor::full({}, uint64_t{52})).cast(DType::U32) -
         Tensor::full({}, uint32_t{1023});
}

} // namespace

std::optional<TreeMask> tree_mask(const Forest& forest, int64_t root) { return MaskMaker(forest).make(root); }

bool fits_narrow(size_t leaves, const Forest& forest) {
  return leaves <= 32 && forest.computed == DType::F32;
}

Ends ends_by_masks(Call& call, const Forest& forest, const std::vector<TreeMask>& masks, const Tensor& x) {
  size_t questions = 1, leaves = 1; // of the largest trees
  for (const TreeMask& mask : masks) {
    questions = std::max(questions, mask.questions.size());
    leaves = std::max(leaves, mask.leaves.size());
  }
  Questions asked(call, forest, x);
  Answers answers(forest, fits_narrow(leaves, forest));
  Ends ends;
  std::vector<uint32_t> first; // places of the trees
  for (const TreeMask& mask : masks) {
    first.push_back(static_cast<uint32_t>(ends.node.size()));
    ends.node.insert(ends.node.end(), mask.leaves.begin(), mask.leaves.end());
    for (const TreeMask::Question& question : mask.questions) {
      asked.add(forest.nodes[question.node]);
      answers.add(question);
    }
    for (size_t k = mask.questions.size(); k < questions; ++k) {
      asked.add_none();
      answers.add_none();
    }
  }
  const Expr trees(static_cast<int64_t>(masks.size())), each(static_cast<int64_t>(questions)),
      rows = x.shape()[0];
  const Shape table{trees, each, 1};
  // Rows are the last axis here: neighbours of one feature are neighbours in memory.
  const Tensor value =
      x.permute({1, 0}).contiguous().take(asked.feature(asked.asked()), 0).reshape({trees, each, rows});
  const Tensor words = answers.words(table, value, asked.threshold().reshape(table));
  const Tensor left = words.all_bits(1);
  ends.place = (lowest_bit(left) + Tensor::from(first, {trees, 1})).permute({1, 0});
  return ends;
}

} // namespace lathe::onnx
