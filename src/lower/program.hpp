// From a graph to canonical loop nests. Lowering is a function: nothing here is up for search.
//
// A Stage is one graph node that computes something, with the loop nests that fill its buffer. Inputs and views have no
// stage: they become part of the indices of the loads that read them. Constants, Iota and comparisons of these become
// part of the values that use them. A stage's nests are canonical: one serial loop per axis of the node's shape, in
// order, storing at exactly those loop variables:
//   elementwise   for i0 { for i1 { t3[i0, i1] = value } }
//   Reduce        for i0 { t3[i0, 0] = identity }       (axes reduced have size 1: no loop, index 0)
//                 for i0 { for r1 { t3[i0, 0] max= value } }
//   Transform     for i2 { for i3 { t3[0, 0, i2, i3] = value; t3[0, 1, i2, i3] = value; ... } }
//   Scatter       a copy of the base, then serial loops that combine at a computed index
//   Scan          none: a Recurrence of the program runs its body, a program of its own
// Names: buffer "t<stage>", loops "t<stage>.i<axis>", "t<stage>.r<axis>" for reducing loops, and "t<stage>.z<axis>" in
// the initialising nest.
// An axis of constant size 1 has no loop.
#pragma once
#include <string>
#include <vector>

#include "ast/ast.hpp"
#include "graph/folding/constants.hpp"
#include "graph/node.hpp"
#include "view/expr_scope.hpp"

namespace lathe::lower {

/// What a loop of a canonical nest runs along. Result: an axis of the result. Reducing: an axis that is reduced; in a
/// scatter, an axis of the values that it scatters. Setting: an axis of the result, in the nest that sets the result to the
/// identity; in a scatter, to the base.
enum class LoopRole : uint8_t { Result, Reducing, Setting };

struct StageLoop {
  int id;                        // of its variable
  LoopRole role;
  int axis;
};

struct Stage {
  int id;                        // position in Program::stages; sources before users
  graph::NodeRef node;
  ast::BufferRef buffer;         // shape = node's shape
  ast::Block nests;              // canonical, loads read inputs and earlier stages' buffers
  std::vector<StageLoop> loops;  // of the nests
  std::vector<int> reads;        // ids of the stages whose buffers are loaded, ascending
  std::vector<int> users;        // ids of the stages that load this one's buffer, ascending
  bool is_reduction = false;     // has an init nest and an update nest
  bool is_scatter = false;
  bool is_transform = false;     // one nest whose body stores several elements, at constant places along the transformed axes
  bool is_output = false;        // its whole buffer is needed: an output of the program, or a recurrence reads it
  int recurrence = -1;           // position in Program::recurrences of the one whose result this is
};

struct InputBuffer {
  ast::BufferRef buffer;
  graph::NodeRef node;           // Op::Input
  bool is_constant;              // a realised tensor: its data are known before the first run
};

struct OutputBuffer {
  std::string name;              // the user's
  int stage;                     // whose buffer it is; an output that is an input, a constant or a view gets a Contiguous stage,
                                 // unless it is a reshape of a stage's result
  Shape shape;                   // the user's; as many elements as in the stage's buffer, in the same order
  graph::NodeRef node{};         // as it was given to lower()
  std::optional<graph::Declared> declared{}; // as it was given to lower()
};

struct Program;

/// A program that runs once for each step; see graph/scan.hpp. The inputs of the body have the names of the parameters. Its outputs
/// are named "r<k>" after the results of the graph's body: all next states, and those stacked results that the outer program
/// reads.
struct Recurrence {
  graph::NodeRef node;                    // one of its results
  std::shared_ptr<const Program> body;
  std::vector<ast::BufferRef> sources;    // by source of the node: an input's or a stage's
  std::vector<int> stages;                // by result: the stage that holds it; -1: nothing reads it
};

struct Program {
  ExprScopeRef expressions;      // scope of the program's and its plans' expressions; null: they live until the process ends
  std::vector<Stage> stages;     // in Kahn order
  std::vector<InputBuffer> inputs;
  std::vector<OutputBuffer> outputs;
  std::vector<Expr> shape_vars;  // all Vars of all shapes, by name
  std::vector<int> stage_of_buffer; // by the id of a buffer; -1: it is an input's
  std::vector<Recurrence> recurrences;
  /// Computes what depends on constants alone when a move rewrites the graph; null: each run computes it.
  graph::Evaluate evaluate = nullptr;
};

struct NamedOutput {
  std::string name;
  graph::NodeRef node;
  std::optional<graph::Declared> declared{};  // where the node is of the bytes of a narrow dtype
};
/// `evaluate`: see Program.
Program lower(const std::vector<NamedOutput>& outputs, graph::Evaluate evaluate = nullptr);

// ---- memory planning ----

struct LiveRange { int first, last; int64_t bytes; };  // first and last instruction that touch the buffer
struct MemoryPlan {
  std::vector<int64_t> offsets;  // one per range, aligned
  int64_t peak = 0, naive = 0;
};
/// Gives each range a place in the arena. Ranges that overlap in time never overlap in the arena. Best fit, largest first.
MemoryPlan plan_memory(const std::vector<LiveRange>& ranges, int64_t alignment);

}  // namespace lathe::lower
