// What the nodes of trees ask of a row: a feature's value, a threshold, and how they are compared.
#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "onnx/ops/ml/forest.hpp"

namespace lathe::onnx {

/// What a value may be to a threshold, as bits.
enum Relation : uint32_t { kBelow = 1, kSame = 2, kAbove = 4, kMissing = 8 };
/// Those with which the node's comparison holds.
uint32_t relations(const ForestNode& node);

/// The comparison of all nodes, where they have one.
std::optional<Branch> one_branch(const Forest& forest);
/// bool. Of NaN: as IEEE 754 compares, whatever a node makes of it.
Tensor holds(Branch branch, const Tensor& value, const Tensor& threshold);

/// In f64 or else in f32.
Tensor numbers_as(const std::vector<double>& values, DType dtype, const Shape& shape);

/// A table of questions, and their answers as tensor arithmetic.
class Questions {
public:
  /// For the nodes of `forest` and the rows of `x`. Error(Shape) if the number of x's features is not fixed.
  Questions(Call& call, const Forest& forest, const Tensor& x);

  /// Error(Shape) for a feature that x does not have, Error(Value) for a threshold that is NaN.
  void add(const ForestNode& node);
  /// A question to which the answer is always no.
  void add_none();

  /// The columns of the table. `asked` names the feature and, where nodes compare in several ways, the way.
  Tensor asked() const { return Tensor::from(asked_); }
  Tensor threshold() const {
    return numbers_as(threshold_, computed_, {static_cast<int64_t>(threshold_.size())});
  }

  /// The features that elements of `asked` name.
  Tensor feature(const Tensor& asked) const;
  /// The answers where the features have these values. bool.
  Tensor answer(const Tensor& asked, const Tensor& threshold, const Tensor& value) const;

private:
  Call& call_;
  int64_t features_;
  std::optional<Branch> branch_; // of all nodes, if it alone decides
  DType computed_;
  std::vector<uint32_t> asked_;
  std::vector<double> threshold_;
};

} // namespace lathe::onnx
