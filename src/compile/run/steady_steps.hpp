// The middle of a recurrence: steps whose operands move by the same distances from one step to the next but
// one, as rows advance and the two buffers of a state alternate. Such a step is a few additions and calls.
#pragma once
#include <cstdint>
#include <vector>

#include "compile/run/executable_impl.hpp"

namespace lathe::pipeline {

/// A parameter of a launch of a recurrence's body that each step binds, and the body's slot that it is.
struct Moving {
  size_t launch, parameter, slot;
};

class SteadySteps {
public:
  /// Consecutive steps that tell how the operands of all later ones move.
  static constexpr int kSeen = 4;

  /// Whether all of the body's kernels run on addresses.
  static bool can_run(const Executable::Impl& body);
  /// `frame`: with the sizes and the operands that do not move. `moving`: the parameters that do.
  SteadySteps(const Executable::Impl& body, const Executable::Impl::Frame& frame,
              const std::vector<Moving>& moving);

  /// Notes where step `seen` of the first kSeen finds the operand that is moving[k].
  void see(int seen, size_t k, const runtime::BufferSlice& at);
  /// The same for the bool that says whether the step runs.
  void see_condition(int seen, const runtime::BufferSlice& at);
  /// Runs at most `most` steps, from the first that was seen on, up to the first whose condition is false.
  /// Returns how many ran.
  int64_t run(int64_t most);

private:
  struct Call {
    const runtime::Program* program;
    std::vector<void*> addresses;
    const int64_t* vars;
  };
  /// Where something lies in the next even and the next odd step, and the distance to the step but one.
  struct Path {
    std::uintptr_t at[2], distance[2];
    void see(int seen, std::uintptr_t address);
    std::uintptr_t take(size_t turn) {
      const std::uintptr_t now = at[turn];
      at[turn] += distance[turn];
      return now;
    }
  };
  struct Operand {
    void** place; // in a call's addresses
    Path path{};
  };

  std::vector<Call> calls_;
  std::vector<Operand> operands_;
  bool has_condition_ = false;
  Path condition_{};
};

} // namespace lathe::pipeline
