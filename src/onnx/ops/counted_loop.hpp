// Loops that count: how often the body of a Loop runs, where its condition compares counters with values that no
// iteration changes. TensorFlow's while loops come like this, without a trip count.
#pragma once
#include "lathe/onnx/op.hpp"

namespace lathe::onnx {

struct CountedLoop {
  /// Iterations, if the condition holds before the first.
  Expr trips;
  /// By state: what an iteration adds to it, for integers of one element whose first value is known; 0 for one
  /// that stays. Nothing for other states.
  std::vector<std::optional<int64_t>> steps;
};

/// What the body of the Loop does with its integers; nothing if it can't be said. `most`: the node's trip count,
/// if it is known.
std::optional<CountedLoop> count_iterations(Call& call, const std::vector<Value>& initial,
                                            std::optional<Expr> most);

} // namespace lathe::onnx
