// Decision trees as tables, and what the leaves that rows end at vote for.
#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "lathe/onnx/op.hpp"

namespace lathe::onnx {

/// What a node compares a feature with its threshold for.
enum class Branch { LessEqual, Less, GreaterEqual, Greater, Equal, NotEqual, Leaf };

struct ForestNode {
  Branch branch = Branch::Leaf;
  int64_t feature = 0;
  double threshold = 0;
  bool missing_holds = false;     // whether NaN counts as a comparison that holds
  int64_t holds = -1, fails = -1; // nodes below
};

struct Vote {
  int64_t target;
  double weight;
};

struct Forest {
  std::vector<ForestNode> nodes;
  std::vector<std::vector<Vote>> votes; // of each node; those of leaves count
  std::vector<int64_t> roots;
  int64_t targets = 1;
  DType computed = DType::F32; // of comparisons and sums
};

/// How a target's votes become one number. TreeEnsemble's numbers.
enum class Aggregate { Average, Sum, Min, Max };

struct Votes {
  Tensor scores;               // [rows, targets], 0 where a target has no vote
  std::optional<Tensor> voted; // where a target has a vote; nothing if that is everywhere, or not asked for
};

/// The votes of the leaves that the rows of x, [rows, features], end at. Error(Value) for nodes that are not
/// there or go in a circle, Error(Shape) for features that x does not have.
Votes count_votes(Call& call, const Forest& forest, const Tensor& x, Aggregate aggregate,
                  bool ask_voted = false);

} // namespace lathe::onnx
