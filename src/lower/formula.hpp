// What stages compute, as lines that a person reads.
//
//   t0[i0, i1] = sum over r2 < 512 of a[i0, r2] * w[r2, i1]
//   t7[i0, i1] = gelu(t0[i0, i1])
#pragma once
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "lower/program.hpp"

namespace lathe::lower {

/// A value that one of the user's functions makes of others: gelu(x).
struct FunctionCall {
  graph::NodeRef value;
  std::string_view function;
  std::vector<graph::NodeRef> arguments; // of the value's shape
  double parameter = 0;                  // a number that the function takes, too; 0: none
};
/// By their values, nodes of a simplified graph.
using FunctionCalls = std::unordered_map<const graph::Node*, FunctionCall>;

class Formulas {
public:
  /// All of them outlive this.
  Formulas(const Program& program, const FunctionCalls& calls);

  /// Stage `stage` as a formula of inputs and of stages that are not `inlined`. One that would be too long to
  /// read says how many operations on which buffers there are.
  std::string of(int stage, const std::set<int>& inlined) const;

private:
  class Writer;

  const Program& program_;
  const FunctionCalls& calls_;
  std::unordered_map<const graph::Node*, int> stage_of_;
  std::unordered_map<const graph::Node*, const ast::Buffer*> input_of_;
};

/// A stage's shape as formulas index it: without axes of size 1. Empty if there are no others.
std::string longer_axes(const Shape& shape);
/// The index along an axis of that size, as formulas and emitted loops name it: "i0", or "i_n" if the user
/// calls the size n. `kind`: i, or r if the axis is reduced.
std::string axis_name(char kind, size_t axis, Expr size);

} // namespace lathe::lower
