// Which way a call goes on behind a segment, by the numbers that it sees there: to a segment for just these,
// or to one for all such numbers. See docs/decisions/models-are-traced.md.
#pragma once
#include <set>

#include "onnx/program/program.hpp"

namespace lathe::onnx {

/// Where a call goes on.
struct Step {
  Segment* segment = nullptr;         ///< null: there is no way yet
  const OpenBranch* branch = nullptr; ///< null: the segment is for just these numbers
  bool refused = false;               ///< a branch for all such numbers was tried in vain
};

/// The step of a call that sees these numbers; adds the values of the branch's variables to `sizes`.
/// `avoided`: branches to take as refused. The caller holds program.mutex.
Step follow(const Segment& segment, const std::vector<Scalar>& seen, Sizes& sizes,
            const std::set<const OpenBranch*>& avoided = {});

/// Makes the segment of a call that sees these numbers, for just these.
Step add_closed(Segment& segment, const std::vector<Scalar>& seen, const Sizes& sizes);

/// Makes a segment for all numbers like these, as another call shows which are alike: what is the same in
/// both is this number, what is as far from one of the way's variables in both is that plus a constant, and
/// another is a new variable. It adds those to `variables`, and their values to `sizes`. For just these
/// numbers where no other call was here, or where a number is none that a variable may have. The caller holds
/// program.making and program.mutex.
Step add_open(const Program::Impl& program, Segment& segment, const std::vector<Scalar>& seen, Sizes& sizes,
              std::vector<Expr>& variables);

} // namespace lathe::onnx
