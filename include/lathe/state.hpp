// State: memory that keeps its values from one run of a program to the next, and that programs read and update: weights under
// training, the moments of an optimiser, a decoder's cache.
//
//   State weights("weights", Tensor::randn({784, 10}, 1));
//   Tensor loss = ...;                                             // of weights.value() and of inputs
//   Tensor slope = gradient(loss, {weights.value()})[0];
//   Executable step = compile({{"loss", loss}}, {}, {weights.assign(weights.value() - 0.1 * slope)});
//   for (const Batch& b : batches) step({{"x", b.x}, {"y", b.y}}); // each call updates the weights
//   Tensor trained = weights.read();
//
// A run reads all states as they were before it, and updates them when it ends. Several programs may use one state, and a call may
// hand a program another state in place of the one that it was compiled with.
#pragma once
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "lathe/tensor.hpp"

namespace lathe {

struct Update;

/// Where a part begins along one axis: a number, an integer of shape variables, or an integer tensor of one element, known at
/// run time. Negative ones count from the end.
class Start {
 public:
  template <WholeNumber T> Start(T position) : Start(Expr(int64_t{Whole(position)})) {}
  Start(Expr position) : position_(Tensor::scalar(position)) {}
  Start(const Tensor& position) : position_(position) {}
  const Tensor& position() const { return position_; }

 private:
  Tensor position_;
};

/// The part of x of these sizes that begins at `start`; axes without a start begin at 0. What lies outside of x reads as 0. As
/// jax.lax.dynamic_slice, which moves such parts inside. Error(DType) for a start that is no integer, Error(Shape) for one of
/// several elements, for more starts than axes and for another number of sizes than axes.
Tensor slice_at(const Tensor& x, const std::vector<Start>& start, const Shape& sizes);
/// x with `part`, of as many axes, in place of what begins at `start`; what would lie outside of x is dropped. As
/// jax.lax.dynamic_update_slice, which moves such parts inside. Errors as slice_at; Error(DType) for another dtype than x's.
Tensor update_slice_at(const Tensor& x, const std::vector<Start>& start, const Tensor& part);

/// A handle: copies share the memory, which lives as long as a handle or a program that uses it.
///
/// Threads: every function may be called from several at once. Runs that update a state, and write(), have it for themselves: they
/// wait for other runs that use it. Runs that only read it go side by side. To run one program on several threads at once, give
/// each call a state of its own.
class [[nodiscard]] State {
 public:
  /// All zeros. Error(Name) unless the name is an identifier, Error(Shape) unless the shape is static.
  State(const std::string& name, const Shape& shape, DType dtype = DType::F32);
  /// Realises `values` and copies them.
  State(const std::string& name, const Tensor& values);
  State(const State&) = default;             // no moves: a state that was moved from would be none
  State& operator=(const State&) = default;

  const std::string& name() const;           ///< of the state in programs
  const Shape& shape() const;
  DType dtype() const;

  /// Stands for the state in a program: its values before the run. Programs that read it need no such input.
  const Tensor& value() const;
  /// The update after which the state has these values, broadcast to its shape. Error(Shape) unless they fit, Error(DType) unless
  /// they have the state's dtype.
  Update assign(const Tensor& next) const;
  /// assign(update_slice_at(value(), start, part)). Where the program reads no older value after it, only the part is written.
  Update assign_at(const std::vector<Start>& start, const Tensor& part) const;

  /// A copy of the values, now; and new values, now. Error(Shape) or Error(DType) where they don't fit.
  Tensor read() const;
  void write(const Tensor& values) const;

  struct Impl;

 private:
  friend struct detail::Access;
  explicit State(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}
  std::shared_ptr<const Impl> impl_;
};

/// What a program does to a state at the end of a run. `value`: the next values, which the program may read, too.
struct Update {
  State state;
  Tensor value;
};

using NamedStates = std::map<std::string, State>;

}  // namespace lathe
