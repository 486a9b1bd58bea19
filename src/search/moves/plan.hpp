// Plans: which kernels compute the stages of a program, and which moves made each kernel.
//
// A Plan partitions the stages of a Program into kernels. It starts with one kernel per stage. Replaying a
// list of moves on the same Program rebuilds the same Plan.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lower/program.hpp"
#include "search/machine/target.hpp"
#include "search/moves/kernel_handles.hpp"
#include "search/moves/move.hpp"

namespace lathe::search {

/// One kernel of a plan. Immutable and shared between plans that don't differ in it.
struct KernelPlan {
  std::vector<int> stages;  // computed here, ascending (not inlined ones that vanish)
  std::vector<int> inlined; // stages recomputed inside this kernel
  std::vector<Move> moves;  // all that were applied to it, in order
  std::vector<int> reads;   // stages of other kernels whose buffers it loads, ascending
  ast::Kernel kernel;       // the scheduled loop AST, before the passes that prepare it for renderers
  KernelHandles handles;    // of its loops and scratch buffers
  /// Kernels that run once, before the first run, and make the constants' copies that this kernel reads. Each
  /// reads its first parameter, an input of the program, and writes its second, one of kernel.params.
  std::vector<ast::Kernel> constants;
  std::vector<bool> is_constant; // by parameter: a constant of the program, or such a copy
  uint64_t hash;                 // structural: of kernel and of which parameters are constants
  /// Position in Program::recurrences of the one that this kernel runs; its kernel then has parameters and no
  /// statements, and no move changes it. -1: none.
  int recurrence = -1;
};
using KernelPlanRef = std::shared_ptr<const KernelPlan>;

/// The moves that led to a plan, newest first; tails are shared between plans.
struct History {
  Move move;
  std::shared_ptr<const History> earlier;
  History(Move m, std::shared_ptr<const History> e) : move(std::move(m)), earlier(std::move(e)) {}
  History(const History&) = delete;
  ~History(); // iterative
};

struct Plan {
  std::shared_ptr<const lower::Program> program;
  std::vector<KernelPlanRef>
      kernels; // in an order in which every kernel comes after those whose outputs it reads
  std::shared_ptr<const History> history;
  /// By recurrence of the program: the plan of its body.
  std::vector<std::shared_ptr<const Plan>> bodies;
  std::vector<Move> moves() const; // oldest first: replay() of them rebuilds this plan, but for its bodies
};

/// One kernel per stage, and one per recurrence; no loop moves.
Plan initial_plan(std::shared_ptr<const lower::Program> program);

/// The kernel that computes the same stages without any loop move (what scheduled ones are checked against):
/// the canonical nests one after the other, `inlined` stages computed on the spot. Writes the same buffers as
/// `scheduled`.
KernelPlanRef unscheduled(const lower::Program& program, const KernelPlan& scheduled);

/// The new plan, or the reason why the move is not legal here.
struct Applied {
  std::optional<Plan> plan;
  std::string reason;
};
Applied apply(const Plan& plan, const Move& move, const Target& target);
Applied apply(const Plan& plan, const std::vector<Move>& moves, const Target& target); // all or none
/// The plan after those of the fuse_at moves that are legal in their turn; the others are left out.
Plan fuse_where_legal(const Plan& plan, const std::vector<Move>& fusions, const Target& target);
/// Throws Error(Schedule) naming the move that isn't legal.
Plan replay(std::shared_ptr<const lower::Program> program, const std::vector<Move>& moves,
            const Target& target);

} // namespace lathe::search
