// Which of a program's trees of segments a call takes. A model that names sizes has a tree for all of them,
// and versions: trees for the sizes of some calls, which are faster. See docs/decisions/versions-of-sizes.md.
#pragma once
#include "onnx/program/program.hpp"

namespace lathe::onnx {

/// A tree of segments, by its place in Program::Impl::roots.
struct Way {
  /// EmptySizes: all sizes but for some that are 0.
  enum class For { AllSizes, Sizes, EmptySizes, Shapes };
  For made_for;
  std::string key; ///< "" for all sizes
  Sizes sizes{};   ///< that the version has fixed
};

/// The sizes that the model names, as a call feeds them, and how many times its step a size with one is. Of sizes
/// of one name that differ, the first.
Sizes named_sizes(const Program::Impl& program, const std::vector<Value>& fed);

/// The names of the sizes that versions fix: those among the inputs', but for numbers of steps of
/// recurrences. A body is the same for any number of steps. Where a model convolves along the steps, versions
/// fix them, too.
std::set<std::string> sizes_of_versions(const Program::Impl& program, const std::vector<Value>& results);

/// Error(Shape) for sizes that the options fix, and are fed otherwise.
void check_fixed_sizes(const Program::Impl& program, const std::vector<Value>& fed);

/// Whether the sizes that a tree leaves open are in the bounds it is made for; `fixed`: those that it does
/// not. The caller holds program.mutex.
bool in_bounds(const Program::Impl& program, const std::vector<Value>& fed,
               const std::set<std::string>& fixed = {});

/// The way of calls with the shapes of this one.
Way way_of_shapes(const std::vector<Value>& fed);

/// The way of a loop's body, whose tree begins with a look at the sizes.
Way way_of_ranks(const std::vector<Value>& fed);
/// All sizes of what is fed, in order.
std::vector<Scalar> sizes_of(const std::vector<Value>& fed);

/// The way of a call. The first call's sizes get a version, and later sizes one when two calls in a row have
/// them, up to the number that the options say. Sizes that are 0 have a tree for all the others, and sizes of one
/// name that differ have trees of their own. Locks program.mutex.
Way way_of(Program::Impl& program, const std::vector<Value>& fed);

} // namespace lathe::onnx
