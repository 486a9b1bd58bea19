// Which way a call goes on behind a segment, by the numbers that it sees there: to a segment for just these,
// or to one for all such numbers. See docs/decisions/models-are-traced.md.
#pragma once
#include <set>

#include "onnx/program/program.hpp"

namespace lathe::onnx {

/// Branches that a call tries while it makes segments, over all its traces.
struct Openings {
  /// A branch that the call has made.
  struct Made {
    Segment* behind;
    const OpenBranch* branch;
  };
  std::vector<Made> made{};
  std::set<const OpenBranch*> avoided{};  ///< where a trace failed
  std::vector<const OpenBranch*> taken{}; ///< by the last trace
  std::vector<Segment*> way{};            ///< the segments that it went through
};

/// Where a call goes on.
struct Step {
  Segment* segment = nullptr;         ///< null: there is no way yet
  const OpenBranch* branch = nullptr; ///< null: the segment is for just these numbers
};

/// The step of a call that sees these numbers; adds the values of the branch's variables to `sizes`.
/// `openings`: of the call if it makes segments. The caller holds program.mutex.
Step follow(const Segment& segment, const std::vector<Scalar>& seen, Sizes& sizes,
            const Openings* openings = nullptr);

/// Makes the segment of a call that sees these numbers, for just these. The caller holds program.making and
/// program.mutex.
Step add_closed(Segment& segment, const std::vector<Scalar>& seen, const Sizes& sizes);

/// Makes a segment for all numbers like these, as another call shows which are alike: what is the same in
/// both is this number, what is as far from one of the way's variables in both is that plus a constant, and
/// another is a new variable. It adds those to `variables`, and their values to `sizes`. For just these
/// numbers where no other call came through here, where a number is none that a variable may have, or where
/// it was tried in vain. The caller holds program.making and program.mutex.
Step add_open(const Program::Impl& program, Segment& segment, const std::vector<Scalar>& seen, Sizes& sizes,
              std::vector<Expr>& variables, Openings& openings);

/// At the call's end: keeps the branches that it took, notes those that it tried in vain, and drops others.
/// Where it failed, all that it made go. The caller holds program.making and program.mutex.
void settle(const Openings& openings, bool failed);

} // namespace lathe::onnx
