// Recurrences: a step that runs once for each row, and hands its state to the next step. A compiled program holds the step
// once, however many there are, also where their number is a size that a call gives.
//
//   // the running mean of the rows of x [steps, 64], from zero
//   Scanned y = scan(
//       [](const std::vector<Tensor>& state, const std::vector<Tensor>& rows) -> ScanStep {
//         Tensor next = 0.9 * state[0] + 0.1 * rows[0];
//         return {{next}, {next}};
//       },
//       {Tensor::zeros({64})}, {x});
//   y.state[0];    // the last state, [64]
//   y.stacked[0];  // every step's, [steps, 64]
#pragma once
#include <functional>
#include <optional>
#include <vector>

#include "lathe/tensor.hpp"

namespace lathe {

/// What a step makes: the next states, of the dtypes and shapes of the states that it was given, and rows of results.
struct ScanStep {
  std::vector<Tensor> state, rows;
};
/// Builds one step from the states and a row of each scanned tensor. Called once; it may read other tensors, too.
using ScanFunction = std::function<ScanStep(const std::vector<Tensor>& state, const std::vector<Tensor>& rows)>;

struct ScanOptions {
  std::optional<Expr> steps;  ///< needed only where nothing is scanned
  bool backward = false;      ///< the first step takes, and makes, the last rows
};
struct Scanned {
  std::vector<Tensor> state;   ///< the last states; with 0 steps the first ones
  std::vector<Tensor> stacked; ///< the rows, along a new first axis
};

/// jax.lax.scan: runs `step` over the rows, along axis 0, of the `scanned` tensors. What a step reads that depends on neither
/// state nor rows is computed once, before the first step. The results have derivatives.
///
/// Error(Shape) for scanned tensors without an axis or of different first sizes, and for a next state of another shape than its
/// state; Error(DType) for one of another dtype, and for narrow dtypes (is_narrow()); Error(Value) for another number of next
/// states, for a step count below 0, and where nothing says how many steps there are.
Scanned scan(const ScanFunction& step, const std::vector<Tensor>& state, const std::vector<Tensor>& scanned,
             const ScanOptions& options = {});

}  // namespace lathe
