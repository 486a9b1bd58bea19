#include "onnx/ops/ml/tree_questions.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "lathe/functions.hpp"
#include "onnx/ops/values.hpp"

namespace lathe::onnx {
namespace {

constexpr int64_t kMaxFeature = int64_t{1} << 27;

constexpr int kRelationBits = 4; // beside the feature

} // namespace

uint32_t relations(const ForestNode& node) {
  constexpr std::array<uint32_t, 7> of = {kBelow | kSame,  kBelow, kAbove | kSame, kAbove, kSame,
                                          kBelow | kAbove, 0};
  return of[static_cast<size_t>(node.branch)] | (node.missing_holds ? uint32_t{kMissing} : 0);
}

std::optional<Branch> one_branch(const Forest& forest) {
  std::optional<Branch> common;
  for (const ForestNode& node : forest.nodes) {
    if (node.branch == Branch::Leaf) continue;
    if (common && *common != node.branch) return {};
    common = node.branch;
  }
  return common;
}

Tensor holds(Branch branch, const Tensor& value, const Tensor& threshold) {
  switch (branch) {
  case Branch::LessEqual: return value <= threshold;
  case Branch::Less: return value < threshold;
  case Branch::GreaterEqual: return value >= threshold;
  case Branch::Greater: return value > threshold;
  case Branch::NotEqual: return value != threshold;
  default: return value == threshold;
  }
}

Tensor numbers_as(const std::vector<double>& values, DType dtype, const Shape& shape) {
  if (dtype == DType::F64) return Tensor::from(values, shape);
  return Tensor::from(std::vector<float>(values.begin(), values.end()), shape);
}

Questions::Questions(Call& call, const Forest& forest, const Tensor& x)
    : call_(call), features_(fixed_size(call, x, 1)), computed_(forest.computed) {
  // NaN fails all comparisons but one.
  const bool plain = std::none_of(forest.nodes.begin(), forest.nodes.end(),
                                  [](const ForestNode& node) { return node.missing_holds; });
  branch_ = one_branch(forest);
  if (!plain || branch_ == Branch::NotEqual) branch_.reset();
}

void Questions::add(const ForestNode& node) {
  if (node.feature < 0 || node.feature >= std::min(features_, kMaxFeature))
    call_.fail(ErrorKind::Shape,
               fmt::format("a node asks for feature {}, expected one of {}", node.feature, features_));
  if (std::isnan(node.threshold)) call_.fail(ErrorKind::Value, "a threshold is NaN, expected a number");
  const auto feature = static_cast<uint32_t>(node.feature);
  asked_.push_back(branch_ ? feature : feature << kRelationBits | relations(node));
  threshold_.push_back(node.threshold);
}

// NaN, with which no comparison holds; and no relation.
void Questions::add_none() {
  asked_.push_back(0);
  threshold_.push_back(std::numeric_limits<double>::quiet_NaN());
}

Tensor Questions::feature(const Tensor& asked) const {
  return branch_ ? asked : asked >> Tensor::full({}, static_cast<uint32_t>(kRelationBits));
}

Tensor Questions::answer(const Tensor& asked, const Tensor& threshold, const Tensor& value) const {
  if (branch_) return holds(*branch_, value, threshold);
  const auto relation = [](uint32_t bit) { return Tensor::full({}, bit); };
  const Tensor found = where(value < threshold, relation(kBelow),
                             where(value == threshold, relation(kSame),
                                   where(value > threshold, relation(kAbove), relation(kMissing))));
  return (asked & found) != 0;
}

} // namespace lathe::onnx
