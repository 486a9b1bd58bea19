// Recurrences: a step that runs once for each row, and hands its state to the next step. A compiled program holds the step
// once, however many there are, also where their number is a size that a call gives, or depends on the states: while_loop.
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

/// Says of a state, by one bool, whether a loop makes another step.
using LoopCondition = std::function<Tensor(const std::vector<Tensor>& state)>;
/// Makes the next state: as many tensors, of the same dtypes and shapes.
using LoopBody = std::function<std::vector<Tensor>(const std::vector<Tensor>& state)>;

/// jax.lax.while_loop with a limit: returns the first of the states `state`, body(state), body(body(state)) ... for which the
/// condition is false, or the one after `most_steps` steps. The number of steps is known when the program runs: steps that are
/// not needed cost nothing, so a large limit costs nothing either. `condition` and `body` are called while the graph is built.
///
///   // the square root of a by Newton's method
///   Tensor root = while_loop([&](const auto& s) { return (s[0] * s[0] - a).abs() > 1e-6; },
///                            [&](const auto& s) { return std::vector<Tensor>{(s[0] + a / s[0]) * 0.5}; }, {a}, 100)[0];
///
/// The results have derivatives. These keep the states of all steps, so a program with them reserves memory for `most_steps`
/// states and writes to that of the steps that ran; the steps back are as many. The number of steps itself has no derivative. Programs written as text other than
/// C (emit, OpenCL) have all of up to 4,096 steps written out.
///
/// Error(DType) for a condition that is no bool, and for a next state of another dtype or of a narrow one; Error(Shape) for a
/// condition of other than one element, and for a next state of another shape; Error(Value) for another number of states, and
/// for a limit below 0. Error(Limit) where gradients() needs states of more than 2^60 bytes.
std::vector<Tensor> while_loop(const LoopCondition& condition, const LoopBody& body, const std::vector<Tensor>& state,
                               Expr most_steps);

}  // namespace lathe
