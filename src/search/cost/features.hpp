// Features: what the cost model and the suggesters read off a kernel's AST, flattened into arrays.
//
// Loops and accesses are numbered in program order, so what lies inside a loop is a range. Numbers are
// estimates where sizes are symbolic: a shape variable counts as min(its upper bound, 256), and a ragged
// extent as its average over the loops that decide it. A body is the straight-line code of a loop's
// iteration: the stores under it with only unrolled and vector loops between.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "ast/ast.hpp"
#include "search/machine/profile.hpp"
#include "search/machine/target.hpp"
#include "search/moves/plan.hpp"

namespace lathe::search {

/// What an iteration waits for of the one before: operations, each of which takes in the result of the last.
struct Chain {
  double adds = 0, multiply_adds = 0, maxima = 0;
  double through_memory = 0; // a result that is stored and loaded again
  double others = 0;         // cycles
  double cycles(const Latency& l) const {
    return adds * l.add + multiply_adds * l.multiply_add + maxima * l.maximum +
           through_memory * l.through_memory + others;
  }
  Chain operator*(double times) const {
    return {adds * times, multiply_adds * times, maxima * times, through_memory * times, others * times};
  }
};

/// Work of one iteration of a body, in machine instructions (vector or scalar alike).
struct Work {
  double arithmetic = 0;      // vector instructions
  double multiplications = 0; // of these: two ports have multipliers
  double loads = 0, stores = 0;
  double other = 0;         // further instructions: loop control, masks, shuffles
  double divisions[3] = {}; // of vectors of 16, 32 and 64 bytes; scalars are among the first
  double waits = 0;         // cycles of what occupies some unit for as long
  Chain chain;              // along the longest reduction
  double stalls = 0;        // cycles, if only the operations of a value that wait for each other took time
  double registers = 0;     // accumulators and operands alive at once
  double operations = 0;    // scalar arithmetic operations that the program asked for
  bool empty() const { return loads + stores + arithmetic + other + waits == 0; }
};

/// Whether the iterations of the loop are straight-line code.
inline bool is_straight(ast::LoopKind kind) {
  return kind == ast::LoopKind::Unroll || kind == ast::LoopKind::Vector || kind == ast::LoopKind::Tensor;
}

struct LoopInfo {
  const ast::For* loop;
  int parent;    // -1: a nest of its own
  int end;       // loops [its index, end) are itself and those inside
  int depth;     // 0: outermost
  double extent; // average
  double tail;   // share of its executions that are shorter than the others
  int first_access, end_access;
  Work body;
  /// Its body is executed or not: what lies in it belongs to the straight-line code around.
  bool is_condition = false;
};

struct AccessInfo {
  int loop;   // innermost loop around it, -1: none
  int buffer; // in Features::buffers
  bool store, combine, streaming;
  bool random;                     // at a computed index: Gather, Scatter; its strides are those of the index,
                                   // 0 where they depend on data
  bool in_registers;               // of a table that registers hold, where the target can (is_byte_look_up) and
                                   // the vector has lanes enough
  int64_t ahead;                   // elements, of a load that asks for what lies there, too
  uint32_t strides;                // strides[strides + d]: elements per step of the enclosing loop of depth d
  double offset;                   // elements, in the first iteration of all loops
  uint32_t runs = 0, end_runs = 0; // Features::runs [runs, end_runs) are its own
};

/// For one access, a loop whose variable is divided, with remainder, into runs: each of so many steps of
/// `within` elements, and `beyond` elements from the beginning of one to that of the next.
struct Runs {
  int depth; // of the loop
  double steps, within, beyond;
};

struct BufferInfo {
  const ast::Buffer* buffer;
  double elements;
  int element_bytes;
  double asked_at = -1;  // the element that is asked for in the first iteration of all loops, -1: none
  bool constant = false; // of the program
  bool is_prefetched() const { return asked_at >= 0; }
};

struct Features {
  std::vector<LoopInfo> loops;
  std::vector<AccessInfo> accesses;
  std::vector<BufferInfo> buffers;
  std::vector<double> strides;
  std::vector<Runs> runs;
  Work top;            // stores outside of all loops
  double barriers = 0; // executed by one work-item, over all

  /// Elements per step of `loop` (an index), which must enclose the access; of one with runs the average.
  double stride(const AccessInfo& a, int loop) const { return strides[a.strides + loops[loop].depth]; }
  /// each(elements, how often) for the steps of `trips` iterations of `loop`, which must enclose the access:
  /// those within a run, and from run to run.
  template <class F> void each_step(const AccessInfo& a, int loop, double trips, F&& each) const {
    for (uint32_t r = a.runs; r < a.end_runs; ++r)
      if (runs[r].depth == loops[loop].depth && runs[r].steps < trips) {
        each(runs[r].within, runs[r].steps);
        each(runs[r].beyond, trips / runs[r].steps);
        return;
      }
    each(stride(a, loop), trips);
  }
  /// How many steps the access takes over those loops around it for which `counts(loop)`.
  template <class F> double steps(const AccessInfo& a, F&& counts) const {
    double n = 1;
    for (int l = a.loop; l >= 0; l = loops[l].parent)
      if (counts(l)) n *= std::max(1.0, loops[l].extent);
    return n;
  }
  /// Bytes that the access takes side by side, one iteration after the other.
  double run_in_order(const AccessInfo& a) const {
    double run = 1;
    for (int l = a.loop; l >= 0; l = loops[l].parent) {
      if (loops[l].extent <= 1) continue;
      if (std::abs(stride(a, l)) != run) break;
      run *= loops[l].extent;
    }
    return run * buffers[a.buffer].element_bytes;
  }
  /// The loop whose next iteration hints ask for what this access reads then; -1: none.
  int loop_ahead(const AccessInfo& a) const;
};

/// Reads into `out`, whose memory is reused.
void read_features(const ast::Kernel& kernel, const Target& target, Features& out);

/// The value taken for a symbolic size without loop variables.
double estimate(Expr e);

} // namespace lathe::search
