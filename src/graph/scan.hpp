// Recurrences: a body that runs once for each step. It is given states and a row of each scanned source, and
// makes the next states and a row of each stacked result.
//
// A Scan node's sources are, in the order of the body's parameters: the first states, the scanned sources
// (rows along axis 0), and the values that all steps read. Result i of the body is the node's value: the last
// state for i < states, else all rows, stacked along a new axis 0. With 0 steps the last states are the
// first.
//
// A body may name a parameter that says of each step whether it runs. A step that does not run keeps its
// states and makes rows of 0. A state that says so ends the loop; a scanned row leaves single steps out. The
// states that steps were given are for recurrences that leave out the same steps, so those of a step that did
// not run have any values; but bools, which may say which steps run, are 0.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "graph/node.hpp"

namespace lathe::graph {

struct ScanBody {
  /// Named inputs: "state0" ..., "row0" ..., "value0" ....
  std::vector<NodeRef> parameters;
  /// The next states, of the states' dtypes and shapes; then a row of each stacked result. The last of these
  /// are the states that a step was given: derivatives read them, and what nothing reads is not stored. No
  /// sources but parameters, constants and realised tensors.
  std::vector<NodeRef> results;
  size_t states = 0, scanned = 0;
  /// By scanned source, then by stacked result: whether the last row is the first step's.
  std::vector<bool> backward;
  /// Position of the parameter, a state or a row of one bool, that says whether a step runs; none: all run.
  std::optional<size_t> when;

  /// Whether the loop ends at the first step that does not run.
  bool ends_early() const { return when && *when < states; }
  bool is_state(size_t result) const { return result < states; }
  size_t stacked() const { return results.size() - states; }
  size_t given_state(size_t state) const { return results.size() - states + state; } // position in results
  /// Whether the rows of steps that do not run are 0, of a stacked result.
  bool is_cleared(size_t result) const {
    return when && (result < given_state(0) || results[result]->dtype == DType::Bool);
  }
  friend bool operator==(const ScanBody&, const ScanBody&) = default;
};
using ScanBodyRef = std::shared_ptr<const ScanBody>;

uint64_t hash(const ScanBody& body);

/// A recurrence without a choice of one of its results.
struct Recurrence {
  ScanBodyRef body;
  std::vector<NodeRef> sources;
  Expr steps;

  NodeRef result(size_t position) const;
};

/// The number of steps that predictions count with. How many run before a loop ends early is not known, so
/// these count as few.
Expr typical_steps(const ScanAttr& attr);

/// The recurrence that a Scan node is a result of.
Recurrence recurrence_of(const NodeRef& scan);

/// The body's results with `values` in place of its parameters.
std::vector<NodeRef> results_at(const ScanBody& body, const std::vector<NodeRef>& values);

/// `made`, the body's results, where `runs` is true; where it is false, what a step makes that does not run.
/// `given` are the states. `runs` has the first axes of all of them.
std::vector<NodeRef> results_where(const NodeRef& runs, const ScanBody& body,
                                   const std::vector<NodeRef>& made, const std::vector<NodeRef>& given);

/// An input to trace a body with; each is another.
NodeRef placeholder(DType dtype, const Shape& shape);

/// What tracing a body gave. `parameters` are placeholders of the states and rows; `results`, the next states
/// and then rows, may also read any other node.
struct TracedScan {
  std::vector<NodeRef> states, scanned; // sources
  std::vector<NodeRef> parameters;      // states, then rows
  std::vector<NodeRef> results;
  std::vector<bool> backward; // as in ScanBody
  std::optional<size_t> when; // as in ScanBody
  Expr steps;
};
/// The recurrence of a traced body. What the results read and no parameter leads to is computed once, before
/// the first step, and becomes a source.
Recurrence close(const TracedScan& traced);

/// Throws Error naming Scan unless the sources are those of the body, and the result is one of it.
void check_scan(const std::vector<NodeRef>& sources, const ScanAttr& attr);

/// The program with other bodies: constant sources become part of the body, whose results `rewrite` then
/// replaces by as many others of equal dtypes and shapes.
std::vector<NodeRef>
with_bodies(const std::vector<NodeRef>& outputs,
            const std::function<std::vector<NodeRef>(const std::vector<NodeRef>&)>& rewrite);

/// The nodes of the outputs and of all bodies.
std::vector<NodeRef> nodes_with_bodies(const std::vector<NodeRef>& outputs);

} // namespace lathe::graph
